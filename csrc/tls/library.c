/* Calls from outside go through the gate, with an empty error queue: others may
 * have left something in the thread's.
 *
 * A program may export an OpenSSL of its own, which our calls or libssl's could
 * reach. RTLD_DEEPBIND guards against that, and here we check it: the version
 * is that of our headers, and the functions lie in a library. */
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/auxv.h>

#include "tls/channel.h"
#include "tls/gate.h"

__attribute__((visibility("default"))) const struct dlk_tls_library *
dlock_tls_library(const char **why);

static bool enter(void) {
  if (!dlk_tls_enter())
    return false;
  if (ERR_peek_error() != 0) /* clearing costs more than a look */
    ERR_clear_error();
  return true;
}

static const char over[] = "the process ends";

static void client_free(struct dlk_tls_client *client) {
  if (!client || !enter())
    return;
  dlk_tls_client_free(client);
  dlk_tls_leave();
}

static struct dlk_tls_channel *channel_open(struct dlk_tls_client *client,
                                            const char *host, uint16_t port,
                                            struct dlk_tls_fault *fault) {
  if (!enter()) {
    dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "%s", over);
    return NULL;
  }
  struct dlk_tls_channel *c = dlk_tls_channel_open(client, host, port, fault);
  dlk_tls_leave();
  return c;
}

static void channel_free(struct dlk_tls_channel *c) {
  if (!c || !enter())
    return;
  dlk_tls_channel_free(c);
  dlk_tls_leave();
}

static enum dlk_tls_step handshake(struct dlk_tls_channel *c) {
  if (!enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = dlk_tls_channel_handshake(c);
  dlk_tls_leave();
  return step;
}

static enum dlk_tls_step channel_read(struct dlk_tls_channel *c, char *p,
                                      size_t n, size_t *did) {
  if (!enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = dlk_tls_channel_read(c, p, n, did);
  dlk_tls_leave();
  return step;
}

static enum dlk_tls_step channel_write(struct dlk_tls_channel *c, const char *p,
                                       size_t n, size_t *did) {
  if (!enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = dlk_tls_channel_write(c, p, n, did);
  dlk_tls_leave();
  return step;
}

static void finish(struct dlk_tls_channel *c) {
  if (!enter())
    return;
  dlk_tls_channel_finish(c);
  dlk_tls_leave();
}

static void fault_of(const struct dlk_tls_channel *c,
                     struct dlk_tls_fault *fault) {
  dlk_tls_channel_fault(c, fault);
}

static bool pending(const struct dlk_tls_channel *c) {
  if (!enter())
    return true; /* the next step fails */
  bool more = dlk_tls_channel_pending(c);
  dlk_tls_leave();
  return more;
}

static const char *protocol(const struct dlk_tls_channel *c) {
  if (!enter())
    return over;
  const char *name = dlk_tls_channel_protocol(c);
  dlk_tls_leave();
  return name;
}

static bool resumed(const struct dlk_tls_channel *c) {
  if (!enter())
    return false;
  bool was = dlk_tls_channel_resumed(c);
  dlk_tls_leave();
  return was;
}

static bool renew_keys(struct dlk_tls_channel *c) {
  if (!enter())
    return false;
  bool fine = dlk_tls_channel_renew_keys(c);
  dlk_tls_leave();
  return fine;
}

static struct dlk_tls_library library = {
    .abi = DLK_TLS_ABI,
    .client_new = dlk_tls_client_new,
    .client_free = client_free,
    .open = channel_open,
    .feed = dlk_tls_channel_feed,
    .keep = dlk_tls_channel_keep,
    .pending = pending,
    .out = dlk_tls_channel_out,
    .sent = dlk_tls_channel_sent,
    .handshake = handshake,
    .read = channel_read,
    .write = channel_write,
    .finish = finish,
    .channel_free = channel_free,
    .fault = fault_of,
    .protocol = protocol,
    .resumed = resumed,
    .renew_keys = renew_keys,
};

static bool in_program(void *function) {
  Dl_info at, program;
  void *headers = (void *)getauxval(AT_PHDR);
  return dladdr(function, &at) != 0 && headers &&
         dladdr(headers, &program) != 0 && at.dli_fbase == program.dli_fbase;
}

static const char *unusable(void) {
  if (OpenSSL_version_num() >> 28 != OPENSSL_VERSION_NUMBER >> 28)
    return "this process has another OpenSSL than dlock was built with";
  if (in_program((void *)SSL_new) || in_program((void *)OPENSSL_init_crypto))
    return "the program brings an OpenSSL of its own that hides the system's";
  return NULL;
}

/* If another part of the process lets OpenSSL clean up at exit, the gate's
 * handler is registered later and so runs before. */
static const char *start(void) {
  const char *why = unusable();
  if (why)
    return why;
  if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
    return "OpenSSL cannot be initialised here; see its openssl.cnf";
  if (!dlk_tls_gate_open() || !dlk_tls_channel_prepare())
    return "out of memory";
  library.version = OpenSSL_version(OPENSSL_VERSION);
  return NULL;
}

static const char *problem;

static void start_once(void) {
  problem = start();
}

const struct dlk_tls_library *dlock_tls_library(const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, start_once);
  *why = problem;
  return problem ? NULL : &library;
}
