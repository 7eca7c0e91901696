/* What dlock/tls.so offers: TLS as bytes in and bytes out, with no descriptor
 * in its hands. It is the only library of ours that needs OpenSSL, and is
 * opened by dlopen when a URL with TLS is: all of it is reached through the
 * table below, never by symbols.
 *
 * A client is what one store was told (its files, its sessions); a channel is
 * one connection. Both belong to one thread at a time. A client outlives its
 * channels. Nothing here blocks but the reading of the settings' files. */
#ifndef DLK_TLS_TLS_H
#define DLK_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define DLK_TLS_ABI 1u
/* A function of the type dlk_tls_open_library. */
#define DLK_TLS_SYMBOL "dlock_tls_library"
/* Encrypted bytes that a channel keeps for a socket that takes none: with so
 * many no write is begun, and with so many answers on top (to a peer that asks
 * for new keys) no read. What one of these adds comes on top: a record, or the
 * answers to what was fed. */
#define DLK_TLS_AHEAD 65536u
#define DLK_TLS_ANSWERS 16384u

#define DLK_TLS_NOT_SPOKEN                                                     \
  "what answers there does not speak TLS; use the URL without the 's', or "    \
  "the server's TLS port"

/* Strings that are NULL were not given. They live as long as the client. */
struct dlk_tls_settings {
  const char *cafile, *capath; /* neither: what the system trusts */
  const char *cert, *key;      /* key NULL: it is in cert's file */
  const char *key_password, *key_password_file;
  const char *server_name;  /* whom the certificate names; NULL: the host */
  const char *min_version;  /* "1.2", "1.3" */
  const char *ciphers;      /* of TLS 1.2 */
  const char *ciphersuites; /* of TLS 1.3 */
  bool verify;
};

/* Why there is no connection: the rest of a sentence about the server. */
struct dlk_tls_fault {
  enum dlk_code code;
  char text[256];
};

enum dlk_tls_step {
  DLK_TLS_DONE,
  DLK_TLS_WANTS_INPUT, /* feed it, and call the same again */
  DLK_TLS_WANTS_ROOM,  /* so many bytes wait to be sent that it must rest */
  DLK_TLS_ENDED,       /* the peer said that nothing more comes */
  DLK_TLS_FAILED       /* for good; see `fault` */
};

struct dlk_tls_client;
struct dlk_tls_channel;

struct dlk_tls_library {
  uint32_t abi;
  const char *version; /* of OpenSSL, as it is loaded */
  /* No I/O: files are read when a channel is opened, and again when they are
   * other files by then. NULL: out of memory. */
  struct dlk_tls_client *(*client_new)(const struct dlk_tls_settings *settings);
  void (*client_free)(struct dlk_tls_client *client);
  /* NULL and *fault: a file or setting cannot be used, or there is no memory.
   */
  struct dlk_tls_channel *(*open)(struct dlk_tls_client *client,
                                  const char *host, uint16_t port,
                                  struct dlk_tls_fault *fault);
  /* What came from the peer. It is not copied: `p` stays until `keep`. Only
   * when everything fed before has been taken (WANTS_INPUT). */
  void (*feed)(struct dlk_tls_channel *c, const char *p, size_t n);
  /* Copies what was fed and not taken yet. */
  void (*keep)(struct dlk_tls_channel *c);
  /* Whether a read may tell something although nothing more was fed: bytes, the
   * end, or a fault. */
  bool (*pending)(const struct dlk_tls_channel *c);
  /* What is to be sent, and how much of it was. */
  const char *(*out)(const struct dlk_tls_channel *c, size_t *n);
  void (*sent)(struct dlk_tls_channel *c, size_t n);
  enum dlk_tls_step (*handshake)(struct dlk_tls_channel *c);
  /* Once the handshake is done. DONE: *did (not 0) bytes of n. A write that
   * was not done is repeated with the same bytes, or with more behind them. */
  enum dlk_tls_step (*read)(struct dlk_tls_channel *c, char *p, size_t n,
                            size_t *did);
  enum dlk_tls_step (*write)(struct dlk_tls_channel *c, const char *p, size_t n,
                             size_t *did);
  /* Says good-bye to the peer, if nothing failed: see `out`. */
  void (*finish)(struct dlk_tls_channel *c);
  /* NULL is fine. */
  void (*channel_free)(struct dlk_tls_channel *c);
  /* Why it failed; else what to say when the peer is gone without a word. */
  void (*fault)(const struct dlk_tls_channel *c, struct dlk_tls_fault *fault);
  /* After the handshake, for the trace: "TLSv1.3". */
  const char *(*protocol)(const struct dlk_tls_channel *c);
  bool (*resumed)(const struct dlk_tls_channel *c);
  /* For tests: asks the peer for new keys, and changes ours. */
  bool (*renew_keys)(struct dlk_tls_channel *c);
};

/* NULL and why (a sentence's rest): the OpenSSL that this process has is not
 * one that can be used. */
typedef const struct dlk_tls_library *dlk_tls_open_library(const char **why);

#endif
