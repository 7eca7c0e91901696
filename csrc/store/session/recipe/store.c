/* Words for errors, and where a lock's folder is: base "/" escaped key. */
#include "store/session/recipe/store.h"

#include <string.h>

/* Not of what is wrong here: an option's file, a name without an address. */
static bool is_theirs(const char *why) {
  return strncmp(why, "tls.", 4) != 0 && !strstr(why, "cannot be resolved") &&
         !strstr(why, "resolve host");
}

static void word(struct dlk_ss_store *st, const struct dlk_op *op,
                 enum dlk_code code, struct dlk_error *err) {
  char key[DLK_QUOTED_MAX];
  const struct dlk_ss_op_data *data = op->data;
  const struct dlk_ss_driver *d = st->driver;
  const char *at = st->conf.shown, *why = st->sessions.problem;
  dlk_quote(key, op->key, op->key_len);
  if (code == DLK_UNAVAILABLE && data->refusal)
    dlk_error_set(err, code, "%s: %s at %s refuses it: %s", key, d->name, at,
                  data->refusal);
  else if (code == DLK_UNAVAILABLE && st->sessions.shut)
    dlk_error_set(err, code, "%s: %s at %s %s", key, d->name, at, d->shut);
  else if (code == DLK_UNAVAILABLE)
    dlk_error_set(err, code, "%s: %s at %s%s%s%s", key, d->name, at,
                  why[0] ? ": " : " did not answer in time", why,
                  strchr(why, '?') || !is_theirs(why)
                      ? ""
                      : "; is it up, and has it a quorum?");
  else if ((code == DLK_DENIED || code == DLK_INVALID) && st->sessions.refused)
    dlk_error_set(err, code, "%s: %s", key, why);
  else if (code == DLK_DENIED && st->sessions.barred)
    dlk_error_set(err, code,
                  "%s: this machine does not let the program connect to %s at "
                  "%s: %s; see its firewall and SELinux",
                  key, d->name, at, why);
  else if (code == DLK_DENIED)
    dlk_error_set(err, code, "%s: %s at %s refuses access to %s; %s", key,
                  d->name, at, st->base,
                  st->conf.username ? d->denied_user : d->denied_nobody);
  else if (code == DLK_INVALID && op->kind == DLK_OP_ACQUIRE)
    dlk_error_other_limit(err, op->key, op->key_len);
  else if (code == DLK_UNSUPPORTED)
    dlk_error_set(err, code,
                  "%s: not with the %s store, or not with these servers (a "
                  "fence must stay below 10^14)",
                  key, d->name);
  else
    err->code = code;
}

void dlk_ss_done(struct dlk_ss_store *st, struct dlk_op *op,
                 enum dlk_code code) {
  struct dlk_error err = {.code = code};
  if (code != DLK_OK)
    word(st, op, code, &err);
  st->host->done(st->host, op, code == DLK_OK ? NULL : &err);
}

void dlk_ss_done_text(struct dlk_ss_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text) {
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_error_set(&err, code, "%s: %s", dlk_quote(key, op->key, op->key_len),
                text);
  st->host->done(st->host, op, &err);
}

void dlk_ss_lock_path(struct dlk_ss_store *st, struct dlk_buf *out,
                      const char *key, size_t len) {
  dlk_buf_addf(out, "%s/", st->base);
  dlk_ss_escape(out, key, len);
}

const char *dlk_ss_node_path(struct dlk_ss_store *st, const char *lock,
                             size_t len, const char *name) {
  dlk_buf_clear(&st->scratch);
  dlk_buf_add(&st->scratch, lock, len);
  return dlk_ss_path(&st->scratch, len, name);
}
