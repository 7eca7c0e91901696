/* The library is loaded once, and stays: it has handlers for fork and exit. */
#include "net/tls.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "store/host.h"

/* OpenSSL calls must reach the library's own OpenSSL, not the program's.
 * Sanitizers refuse the flag. */
#if !defined RTLD_DEEPBIND || defined __SANITIZE_ADDRESS__ ||                  \
    defined __SANITIZE_THREAD__
#define DEEPLY 0
#else
#define DEEPLY RTLD_DEEPBIND
#endif

static const struct dlk_tls_library *load(const char *path, const char **why) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | DEEPLY);
  *why = handle ? NULL : dlerror();
  if (!handle)
    return NULL;
  void *symbol = dlsym(handle, DLK_TLS_SYMBOL);
  dlk_tls_open_library *get = NULL;
  memcpy(&get, &symbol, sizeof get);
  const struct dlk_tls_library *lib = get ? get(why) : NULL;
  if (lib && lib->abi == DLK_TLS_ABI)
    return lib;
  if (!get || lib)
    *why = "it was built for another version of dlock";
  return NULL;
}

static const char *setting(const struct dlk_conf *conf, const char *key) {
  const struct dlk_option *o = dlk_option_find(&conf->options, "tls", key);
  return o ? o->text : NULL;
}

static struct dlk_tls_settings settings_of(const struct dlk_conf *conf) {
  const struct dlk_option *verify =
      dlk_option_find(&conf->options, "tls", "verify");
  return (struct dlk_tls_settings){
      .cafile = setting(conf, "cafile"),
      .capath = setting(conf, "capath"),
      .cert = setting(conf, "cert"),
      .key = setting(conf, "key"),
      .key_password = setting(conf, "key_password"),
      .key_password_file = setting(conf, "key_password_file"),
      .server_name = setting(conf, "server_name"),
      .min_version = setting(conf, "min_version"),
      .ciphers = setting(conf, "ciphers"),
      .ciphersuites = setting(conf, "ciphersuites"),
      .verify = !verify || verify->text || verify->number != 0,
  };
}

enum dlk_code dlk_net_tls_new(const struct dlk_conf *conf, const char *alpn,
                              struct dlk_net_tls **out, struct dlk_error *err) {
  const char *path = dlk_option_text(&conf->options, "tls_library");
  const char *why = "dlock/tls.so is not there; install the rock dlock-tls";
  const struct dlk_tls_library *lib = path ? load(path, &why) : NULL;
  if (!lib)
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "%s: TLS cannot be used here (%.200s)", conf->shown,
                         why);
  struct dlk_net_tls *tls = calloc(1, sizeof *tls);
  if (tls) {
    tls->lib = lib;
    tls->settings = settings_of(conf);
    tls->settings.alpn = alpn;
    tls->client = lib->client_new(&tls->settings);
  }
  if (!tls || !tls->client) {
    free(tls);
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  }
  *out = tls;
  return DLK_OK;
}

void dlk_net_tls_free(struct dlk_net_tls *tls) {
  if (tls)
    tls->lib->client_free(tls->client);
  free(tls);
}
