/* dlock/tls.so: TLS as bytes in and bytes out, without a descriptor. Only this
 * library needs OpenSSL. A URL with TLS opens it by dlopen, and all calls go
 * through the table below.
 *
 * A client has one store's settings and sessions; a channel is one connection.
 * Both belong to one thread at a time, and a client outlives its channels. Only
 * the settings' files are read blocking. */
#ifndef DLK_TLS_TLS_H
#define DLK_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define DLK_TLS_ABI 2u
/* A function of type dlk_tls_open_library. */
#define DLK_TLS_SYMBOL "dlock_tls_library"
/* Encrypted bytes kept for a socket that takes none. With so many no write
 * begins, with so many answers on top no read. One step may add a record or
 * such answers. */
#define DLK_TLS_AHEAD 65536u
#define DLK_TLS_ANSWERS 16384u

#define DLK_TLS_NOT_SPOKEN                                                     \
  "what answers there does not speak TLS; use the URL without the 's', or "    \
  "the server's TLS port"

/* NULL: not given. Strings live as long as the client. */
struct dlk_tls_settings {
  const char *cafile, *capath; /* neither: the system's CAs */
  const char *cert, *key;      /* key NULL: it is in cert */
  const char *key_password, *key_password_file;
  const char *server_name;  /* in the certificate; NULL: the host */
  const char *min_version;  /* "1.2", "1.3" */
  const char *ciphers;      /* of TLS 1.2 */
  const char *ciphersuites; /* of TLS 1.3 */
  const char *alpn;         /* the protocol spoken inside (RFC 7301) */
  bool verify;
};

/* Why there is no connection: the rest of a sentence about the server. */
struct dlk_tls_fault {
  enum dlk_code code;
  char text[256];
};

enum dlk_tls_step {
  DLK_TLS_DONE,
  DLK_TLS_WANTS_INPUT, /* feed, and repeat the call */
  DLK_TLS_WANTS_ROOM,  /* send first, then repeat the call */
  DLK_TLS_ENDED,       /* the peer sends nothing more */
  DLK_TLS_FAILED       /* for good; see `fault` */
};

struct dlk_tls_client;
struct dlk_tls_channel;

struct dlk_tls_library {
  uint32_t abi;
  const char *version; /* OpenSSL's */
  /* No I/O: each `open` reads changed files. NULL: out of memory. */
  struct dlk_tls_client *(*client_new)(const struct dlk_tls_settings *settings);
  void (*client_free)(struct dlk_tls_client *client);
  /* NULL and *fault: an unusable setting, or no memory. */
  struct dlk_tls_channel *(*open)(struct dlk_tls_client *client,
                                  const char *host, uint16_t port,
                                  struct dlk_tls_fault *fault);
  /* Bytes of the peer, once all fed before are taken (WANTS_INPUT). They are
   * not copied: `p` stays until `keep`. */
  void (*feed)(struct dlk_tls_channel *c, const char *p, size_t n);
  /* Copies what was fed and not taken. */
  void (*keep)(struct dlk_tls_channel *c);
  /* A read may yield something without more fed. */
  bool (*pending)(const struct dlk_tls_channel *c);
  /* What is to be sent, and how much of it was. */
  const char *(*out)(const struct dlk_tls_channel *c, size_t *n);
  void (*sent)(struct dlk_tls_channel *c, size_t n);
  enum dlk_tls_step (*handshake)(struct dlk_tls_channel *c);
  /* After the handshake. DONE: *did (not 0) bytes. An unfinished write is
   * repeated with the same bytes, and perhaps more behind them. */
  enum dlk_tls_step (*read)(struct dlk_tls_channel *c, char *p, size_t n,
                            size_t *did);
  enum dlk_tls_step (*write)(struct dlk_tls_channel *c, const char *p, size_t n,
                             size_t *did);
  /* Adds close_notify to `out`, if nothing failed. */
  void (*finish)(struct dlk_tls_channel *c);
  void (*channel_free)(struct dlk_tls_channel *c);
  /* Why it failed; else the text for a silent end of the peer. */
  void (*fault)(const struct dlk_tls_channel *c, struct dlk_tls_fault *fault);
  /* After the handshake: "TLSv1.3". */
  const char *(*protocol)(const struct dlk_tls_channel *c);
  bool (*resumed)(const struct dlk_tls_channel *c);
  /* For tests. */
  bool (*renew_keys)(struct dlk_tls_channel *c);
};

/* NULL and why (the rest of a sentence): the process's OpenSSL is unusable. */
typedef const struct dlk_tls_library *dlk_tls_open_library(const char **why);

#endif
