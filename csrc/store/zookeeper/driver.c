/* The recipe's requests as requests to ZooKeeper.
 *
 * A contender is an ephemeral sequential node. Its fence is the czxid, which
 * rises with each write of the ensemble, also under a new parent. A proof is a
 * multi of one check: committed like any write, it wakes no watch. A fresh list
 * follows a sync.
 *
 * Folders. The chroot is ours, not the library's: plain nodes. Below stand
 * containers, which servers remove when empty for a minute. Where a server
 * knows none they are plain, too, and each contender's delete is followed by
 * its folder's, which fails while it has children. With credentials nodes are
 * for their owner alone unless the option `acl` says otherwise.
 *
 * Numbers. After 2^31 creates in a folder, servers from 3.6 on give all the
 * same number (DataTree only lets the parent's cversion rise); older ones wrap.
 * The last million before and the first behind are `worn`.
 *
 * A request that takes several of ZooKeeper's has a `call`, which counts on D1.
 */
#include "store/zookeeper/driver.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/password.h"
#include "store/session/format/traced.h"
#include "store/zookeeper/client/link.h"
#include "store/zookeeper/confirm.h"
#include "store/zookeeper/path.h"

#define WORN (1 << 20)

struct dlk_ss_link {
  struct dlk_host *host;
  struct dlk_zk_link *zk;
  struct dlk_zk_client *client;
  struct dlk_ss_events events;
  void (*told)(void *owner);
  void *owner;
  struct dlk_list calls; /* answers to come */
};

struct call {
  struct dlk_list link;
  struct dlk_ss_link *session;
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  int flying;        /* answers to come */
  enum dlk_ss_rc rc; /* the first bad one before the last */
  const char *text;
  bool sets; /* GUARD: its write is a SET */
};

static bool pass(struct dlk_ss_link *l, const struct dlk_zk_request *r,
                 dlk_ss_answer *answer, void *who, uint32_t tag) {
  if (DLK_TRACING)
    dlk_ss_trace("zookeeper", l->host->now(l->host), "send",
                 dlk_zk_request_path(r), "%s", dlk_zk_verb_word(r->verb));
  return dlk_zk_link_send(l->zk, r, answer, who, tag);
}

static void ignore(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)who;
  (void)tag;
  (void)r;
}

/* ---- calls ---- */

static struct call *new_call(struct dlk_ss_link *l, dlk_ss_answer *answer,
                             void *who, uint32_t tag) {
  struct call *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  *c = (struct call){.session = l, .answer = answer, .who = who, .tag = tag};
  dlk_list_append(&l->calls, &c->link);
  return c;
}

static void free_call(struct call *c) {
  dlk_list_remove(&c->link);
  free(c);
}

static bool add(struct call *c, const struct dlk_zk_request *r,
                dlk_ss_answer *answer) {
  bool ok = pass(c->session, r, answer, c, 0);
  c->flying += ok;
  return ok;
}

/* False: its answers are heard by nobody. */
static bool sent(struct call *c, bool ok) {
  if (!ok && c->flying == 0)
    free_call(c);
  return ok;
}

static void keep_first(struct call *c, const struct dlk_ss_reply *r) {
  if (c->rc != DLK_SS_OK)
    return;
  c->rc = r->rc;
  c->text = r->text;
}

/* instead: with a kept failure. The library may refuse the last request at
 * once, before the first are answered: c stays for them. */
static void finish(struct call *c, const struct dlk_ss_reply *r, bool instead) {
  const struct call kept = *c;
  struct dlk_ss_reply reply = *r;
  if (instead && c->rc != DLK_SS_OK) {
    reply.rc = c->rc;
    reply.text = c->text;
  }
  if (--c->flying == 0)
    free_call(c);
  kept.answer(kept.who, kept.tag, &reply);
}

/* ---- folders ---- */

/* A refusal counts only if something is missing afterwards. */
static void on_above(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct call *c = who;
  (void)tag;
  c->flying--;
  c->session->client->plain |= r->rc == DLK_SS_UNKNOWN;
  if (r->rc == DLK_SS_NOAUTH || r->rc == DLK_SS_FAILED)
    keep_first(c, r);
  if (c->flying == 0)
    free_call(c); /* its purpose could not be sent */
}

/* The folders were made for this request. */
static void on_below(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct call *c = who;
  (void)tag;
  finish(c, r, r->rc == DLK_SS_NONODE);
}

static void on_folder(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_reply reply = *r;
  struct call *c = who;
  c->session->client->plain |= r->rc == DLK_SS_UNKNOWN;
  if (r->rc == DLK_SS_EXISTS || r->rc == DLK_SS_UNKNOWN)
    reply.rc = DLK_SS_OK;
  on_below(who, tag, &reply);
}

/* The folder of path's first `len` bytes. */
static bool add_folder(struct call *c, char *path, size_t len,
                       dlk_ss_answer *answer) {
  struct dlk_zk_client *client = c->session->client;
  bool plain = client->plain || len <= strlen(client->chroot);
  char kept = path[len];
  path[len] = '\0';
  struct dlk_zk_request r = {.verb = DLK_ZK_CREATE,
                             .path = path,
                             .data = "",
                             .mode =
                                 plain ? DLK_ZK_PERSISTENT : DLK_ZK_CONTAINER};
  bool ok = add(c, &r, answer);
  path[len] = kept;
  return ok;
}

/* Those above, the chroot's first. */
static bool add_above(struct call *c, char *path, size_t len) {
  for (size_t i = 1; i < len; i++)
    if (path[i] == '/' && !add_folder(c, path, i, on_above))
      return false;
  return true;
}

/* Makes the folder of a create whose answer was NONODE, then sends r; or (NULL)
 * q's own folder. Usually only the lock's is missing; next time make all. */
static bool make_folders(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                         const struct dlk_zk_request *r, dlk_ss_answer *answer,
                         void *who, uint32_t tag) {
  struct call *c = new_call(l, answer, who, tag);
  char *path = c ? strdup(q->path) : NULL;
  size_t len = r ? (size_t)(strrchr(q->path, '/') - q->path) : strlen(q->path);
  bool ok = path && (q->attempt == 1 || add_above(c, path, len)) &&
            add_folder(c, path, len, r ? on_above : on_folder) &&
            (!r || add(c, r, on_below));
  free(path);
  return c && sent(c, ok);
}

static bool create(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                   dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_zk_request r = {.verb = DLK_ZK_CREATE,
                             .path = q->path,
                             .data = q->data,
                             .len = q->len,
                             .mode = DLK_ZK_EPHEMERAL_SEQUENTIAL,
                             .leads = q->leads};
  if (q->attempt == 0)
    return pass(l, &r, answer, who, tag);
  return make_folders(l, q, &r, answer, who, tag);
}

/* ---- list ---- */

static void on_synced(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct call *c = who;
  (void)tag;
  keep_first(c, r);
  if (--c->flying == 0)
    free_call(c); /* the list could not be sent */
}

static void on_listed(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)tag;
  finish(who, r, true);
}

static bool list(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                 dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = q->path};
  struct dlk_zk_request r = {
      .verb = DLK_ZK_CHILDREN, .path = q->path, .watch = q->watch};
  if (!q->fresh)
    return pass(l, &r, answer, who, tag);
  struct call *c = new_call(l, answer, who, tag);
  return c && sent(c, add(c, &sync, on_synced) && add(c, &r, on_listed));
}

/* ---- what a contender's node has to be there for ---- */

static bool check_and(struct dlk_ss_link *l, const char *own,
                      const struct dlk_zk_request *write, dlk_ss_answer *answer,
                      void *who, uint32_t tag) {
  struct dlk_zk_request parts[2] = {
      {.verb = DLK_ZK_CHECK, .path = own, .version = -1}};
  struct dlk_zk_request r = {
      .verb = DLK_ZK_MULTI, .parts = parts, .part_count = write ? 2 : 1};
  if (write)
    parts[1] = *write;
  return pass(l, &r, answer, who, tag);
}

static bool asks_to(const struct dlk_op *op, const char *word) {
  return op->argc > 0 && op->argv_len[0] == strlen(word) &&
         memcmp(op->argv[0], word, op->argv_len[0]) == 0;
}

static bool version_arg(const struct dlk_op *op, size_t i, int32_t *out) {
  char text[16], *end;
  *out = -1;
  if (op->argc <= i)
    return true;
  if (op->argc > i + 1 || op->argv_len[i] == 0 ||
      op->argv_len[i] >= sizeof text)
    return false;
  memcpy(text, op->argv[i], op->argv_len[i]);
  text[op->argv_len[i]] = '\0';
  long n = strtol(text, &end, 10);
  if (*end != '\0' || n < -1 || n > INT32_MAX)
    return false;
  *out = (int32_t)n;
  return true;
}

/* op's write; its path is in `path`. */
static bool guarded_write(const struct dlk_zk_client *client,
                          const struct dlk_op *op, struct dlk_buf *path,
                          struct dlk_zk_request *w) {
  bool ok = op->argc >= 2 && !memchr(op->argv[1], '\0', op->argv_len[1]);
  if (!ok)
    return false;
  if (asks_to(op, "SET")) {
    w->verb = DLK_ZK_SET;
    ok = op->argc >= 3 && version_arg(op, 3, &w->version);
  } else if (asks_to(op, "CREATE")) {
    w->verb = DLK_ZK_CREATE;
    w->mode = DLK_ZK_PERSISTENT;
    ok = op->argc == 3;
  } else if (asks_to(op, "DELETE")) {
    w->verb = DLK_ZK_DELETE;
    ok = version_arg(op, 2, &w->version);
  } else {
    return false;
  }
  if (ok && w->verb != DLK_ZK_DELETE) {
    w->data = op->argv[2];
    w->len = op->argv_len[2];
  }
  dlk_buf_add(path, client->chroot, strlen(client->chroot));
  dlk_buf_add(path, op->argv[1], op->argv_len[1]);
  dlk_buf_add(path, "", 1);
  w->path = path->data;
  return ok && !path->failed && op->argv_len[1] > 1 && op->argv[1][0] == '/' &&
         dlk_zk_path_ok(path->data);
}

static const char *guard_error(void *client, const struct dlk_op *op) {
  struct dlk_buf path = {0};
  struct dlk_zk_request w = {0};
  bool ok = guarded_write(client, op, &path, &w);
  dlk_buf_free(&path);
  return ok ? NULL
            : "guard takes \"SET\", path, data [, version], or \"CREATE\", "
              "path, data, or \"DELETE\", path [, version]";
}

/* The write's missing node is not the contender's. */
static void on_guarded(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct call *c = who;
  struct dlk_ss_reply reply = *r;
  bool there = r->part_rc[0] != DLK_SS_NONODE;
  (void)tag;
  if (r->rc == DLK_SS_NONODE && there)
    reply.rc = DLK_SS_FAILED;
  else if (r->rc != DLK_SS_OK && !there)
    reply.rc = DLK_SS_NONODE;
  reply.stat.version = c->sets ? r->part_version[1] : -1;
  finish(c, &reply, false);
}

static bool guard(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                  dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_buf path = {0};
  struct dlk_zk_request w = {0};
  struct call *c = NULL;
  bool ok = guarded_write(l->client, q->op, &path, &w);
  if (ok)
    c = new_call(l, answer, who, tag);
  if (c) {
    c->sets = w.verb == DLK_ZK_SET;
    ok = check_and(l, q->own, &w, on_guarded, c, 0);
    c->flying += ok;
  }
  dlk_buf_free(&path);
  return c && sent(c, ok);
}

/* ---- the driver ---- */

static bool clean_delete(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                         dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_zk_request r = {
      .verb = DLK_ZK_DELETE, .path = q->path, .version = -1};
  if (!pass(l, &r, answer, who, tag))
    return false;
  const char *end = q->prune && l->client->plain ? strrchr(q->path, '/') : NULL;
  char *folder = end ? strndup(q->path, (size_t)(end - q->path)) : NULL;
  r.path = folder;
  if (folder)
    pass(l, &r, ignore, NULL, 0);
  free(folder);
  return true;
}

static bool send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                 dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_zk_request r = {.path = q->path,
                             .data = q->data,
                             .len = q->len,
                             .version = (int32_t)q->version,
                             .watch = q->watch,
                             .leads = q->leads};
  switch (q->verb) {
  case DLK_SS_CREATE:
    return create(l, q, answer, who, tag);
  case DLK_SS_DELETE:
    return clean_delete(l, q, answer, who, tag);
  case DLK_SS_LIST:
    return list(l, q, answer, who, tag);
  case DLK_SS_FOLDER:
    return make_folders(l, q, NULL, answer, who, tag);
  case DLK_SS_GUARD:
    return guard(l, q, answer, who, tag);
  case DLK_SS_PROVE:
    return check_and(l, q->path, NULL, answer, who, tag);
  case DLK_SS_KEEP:
    r.verb = DLK_ZK_CREATE;
    r.mode = DLK_ZK_PERSISTENT;
    return check_and(l, q->own, &r, answer, who, tag);
  case DLK_SS_MARK:
    r.verb = DLK_ZK_SET;
    break;
  case DLK_SS_READ:
    r.verb = DLK_ZK_GET;
    break;
  case DLK_SS_COUNT:
    r.verb = DLK_ZK_EXISTS_VERB;
    break;
  case DLK_SS_CLOCK:
    r.verb = DLK_ZK_SET;
    r.data = "";
    r.version = -1;
    break;
  case DLK_SS_PING:
    r.verb = DLK_ZK_EXISTS_VERB;
    r.path = "/";
    break;
  default: /* of portable leases */
    return false;
  }
  return pass(l, &r, answer, who, tag);
}

static void on_gone(void *owner) {
  struct dlk_ss_link *l = owner;
  void (*gone)(void *) = l->told;
  void *whose = l->owner;
  while (!dlk_list_empty(&l->calls))
    free_call(DLK_CONTAINER(l->calls.next, struct call, link));
  free(l);
  gone(whose);
}

static struct dlk_ss_link *open(struct dlk_host *host, void *client,
                                int64_t timeout,
                                const struct dlk_ss_events *events, void *user,
                                void *owner) {
  struct dlk_zk_client *all = client;
  const struct dlk_zk_conf conf = {all->hosts, all->auth, all->closed, timeout};
  struct dlk_ss_link *l = calloc(1, sizeof *l);
  if (!l)
    return NULL;
  l->host = host;
  l->client = all;
  l->events = *events;
  l->events.gone = on_gone;
  l->told = events->gone;
  l->owner = owner;
  dlk_list_init(&l->calls);
  l->zk = dlk_zk_link_open(host, &conf, &l->events, user, l);
  if (l->zk)
    return l;
  free(l);
  return NULL;
}

static void close_link(struct dlk_ss_link *l) {
  dlk_zk_link_close(l->zk);
}

static void abandon(struct dlk_ss_link *l) {
  dlk_zk_link_abandon(l->zk);
}

static void free_client(void *client) {
  struct dlk_zk_client *all = client;
  free(all->hosts);
  dlk_password_free(all->auth);
  free(all->chroot);
  free(all);
}

static bool worn(int64_t number) {
  return number > INT32_MAX - WORN || number < INT32_MIN + WORN;
}

const struct dlk_ss_driver dlk_zk_driver = {
    .name = "ZooKeeper",
    .room = "zookeeper",
    .denied_user = "another user made what is there, or this one with another "
                   "password: all clients of a lock need the same username and "
                   "password, or acl = \"open\", and where we begin the right "
                   "to create (docs/security.md)",
    .denied_nobody = "what is there was made for a user: give its username and "
                     "password, or have its ACL changed",
    .shut = "closes each new connection at once; has this address as many as "
            "its maxClientCnxns?",
    .watch_bytes =
        (size_t)512 * 1000, /* the library restores them in one packet */
    .rule = &dlk_zk_confirm,
    .worn = worn,
    .open = open,
    .send = send,
    .close = close_link,
    .abandon = abandon,
    .guard_error = guard_error,
    .free_client = free_client,
};
