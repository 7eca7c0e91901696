/* The library's table. A program may export an OpenSSL of its own, which our
 * calls or libssl's could reach. RTLD_DEEPBIND guards against that, and here we
 * check it: the version is that of our headers, and the functions lie in a
 * library. */
#include <dlfcn.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/auxv.h>

#include "tls/channel.h"
#include "tls/gate.h"

__attribute__((visibility("default"))) const struct dlk_tls_library *
dlock_tls_library(const char **why);

static struct dlk_tls_library library = {
    .abi = DLK_TLS_ABI,
    .client_new = dlk_tls_client_new,
    .client_free = dlk_tls_client_free,
    .open = dlk_tls_channel_open,
    .feed = dlk_tls_channel_feed,
    .keep = dlk_tls_channel_keep,
    .pending = dlk_tls_channel_pending,
    .out = dlk_tls_channel_out,
    .sent = dlk_tls_channel_sent,
    .handshake = dlk_tls_channel_handshake,
    .read = dlk_tls_channel_read,
    .write = dlk_tls_channel_write,
    .finish = dlk_tls_channel_finish,
    .channel_free = dlk_tls_channel_free,
    .fault = dlk_tls_channel_fault,
    .protocol = dlk_tls_channel_protocol,
    .resumed = dlk_tls_channel_resumed,
    .renew_keys = dlk_tls_channel_renew_keys,
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
