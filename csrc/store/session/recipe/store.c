/* What every file of the recipe needs of its store: the words for errors, and
 * where a lock's node is.
 *
 * Paths. The chroot of the URL is not the library's: every path is chroot +
 * prefix + "/" + escaped key, and what of it is missing is made at first use,
 * the chroot as plain nodes, the rest as containers, which the servers remove
 * when they have been empty for a minute. Where a server answers that it knows
 * no containers the rest is plain nodes as well, and each contender that leaves
 * deletes the lock's node behind its own: the server refuses that while another
 * one stands there, and one whose create finds the node gone makes it again, as
 * it does for a container. With credentials every node is made
 * for their owner alone, unless the option `acl` says otherwise; without them
 * for everybody. */
#include "store/session/recipe/store.h"

/* ---- errors ---- */

static void word(struct dlk_zk_store *st, const struct dlk_op *op,
                 enum dlk_code code, struct dlk_error *err) {
  char key[DLK_QUOTED_MAX];
  const struct dlk_zk_op_data *data = op->data;
  dlk_quote(key, op->key, op->key_len);
  if (code == DLK_UNAVAILABLE && data->refusal)
    dlk_error_set(err, code, "%s: ZooKeeper at %s refuses it: %s", key,
                  st->conf.shown, data->refusal);
  else if (code == DLK_UNAVAILABLE && st->sessions.shut)
    dlk_error_set(err, code,
                  "%s: ZooKeeper at %s closes each new connection at once; has "
                  "this address as many as its maxClientCnxns?",
                  key, st->conf.shown);
  else if (code == DLK_UNAVAILABLE)
    dlk_error_set(err, code,
                  "%s: ZooKeeper at %s did not answer in time%s%s; is it up, "
                  "and has it a quorum?",
                  key, st->conf.shown, st->sessions.problem[0] ? ": " : "",
                  st->sessions.problem);
  else if (code == DLK_DENIED)
    dlk_error_set(err, code, "%s: ZooKeeper at %s refuses access to %s; %s",
                  key, st->conf.shown, st->base,
                  st->sessions.auth
                      ? "another user made what is there, or this one with "
                        "another password: all clients of a lock need the same "
                        "username and password, or acl = \"open\", and where "
                        "we begin the right to create (docs/security.md)"
                      : "what is there was made for a user: give its username "
                        "and password, or have its ACL changed");
  else if (code == DLK_INVALID && op->kind == DLK_OP_ACQUIRE)
    dlk_error_other_limit(err, op->key, op->key_len);
  else if (code == DLK_UNSUPPORTED)
    dlk_error_set(err, code,
                  "%s: not with the ZooKeeper store, or not with this "
                  "ensemble (a fence must stay below 10^14)",
                  key);
  else
    err->code = code;
}

void dlk_zk_done(struct dlk_zk_store *st, struct dlk_op *op,
                 enum dlk_code code) {
  struct dlk_error err = {.code = code};
  if (code != DLK_OK)
    word(st, op, code, &err);
  st->host->done(st->host, op, code == DLK_OK ? NULL : &err);
}

void dlk_zk_done_text(struct dlk_zk_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text) {
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_error_set(&err, code, "%s: %s", dlk_quote(key, op->key, op->key_len),
                text);
  st->host->done(st->host, op, &err);
}

/* ---- paths ---- */

enum dlk_zk_mode dlk_zk_above_mode(const struct dlk_zk_store *st, size_t len) {
  return st->plain || len <= st->chroot ? DLK_ZK_PERSISTENT : DLK_ZK_CONTAINER;
}

void dlk_zk_above_heard(struct dlk_zk_store *st, const struct dlk_zk_reply *r) {
  st->plain |= r->rc == DLK_ZK_UNKNOWN;
}

void dlk_zk_lock_path(struct dlk_zk_store *st, struct dlk_buf *out,
                      const char *key, size_t len) {
  dlk_buf_addf(out, "%s/", st->base);
  dlk_zk_escape(out, key, len);
}
