/* A contender from its create to its grant.
 *
 * Recipe: the queue lock of ZooKeeper's own recipes page, with what Curator,
 * kazoo and trials taught (each point has cost somebody two holders or a
 * queue that stood still).
 *
 * 1. create (ephemeral, sequential) and get_children leave together. The
 *    server holds a session's reads behind its own pending writes, so the
 *    list shows our node and every live one before it: an uncontended acquire
 *    is one round trip. The list counts only if create said OK. NONODE makes
 *    the parents (containers, which the server reaps when empty, at any time)
 *    and sends both again. The fence is the node's czxid: it rises with each
 *    write of the ensemble, also where a parent made anew counts from 0.
 * 2. A grant needs: our node first in line in a list that was read after the
 *    create, in the session that owns the node, and now < that session's
 *    horizon (confirm.c). Nobody can come in front later: the counter only
 *    rises, and those behind wait for our node to go. So two holders of one
 *    lock would need two live nodes that each see the other gone.
 * 3. Waiting: watch.c and queue.c say on what. An event only makes us list
 *    again; our own node's absence from a list means it was taken from us
 *    (an admin, or the session), and we join anew with a new one.
 * 4. A create whose answer was lost may have happened. When the connection is
 *    back: sync, then list. By then the old server's create is decided or
 *    refused, and the sync keeps a lagging server from hiding the node; else
 *    we would make a second one and wait behind our own first. Found by guid
 *    it is ours only if its ephemeralOwner is this session (a guid is used in
 *    one session only, but a node of a dying session must never count). Not
 *    found: create with a new guid.
 * 5. Any listed node with our client id that no contender here claims is a
 *    ghost of such an attempt, or of a session given up: deleted on sight. A
 *    contender claims its guid from before the create is sent until its node
 *    is known to be gone, so nothing alive is ever taken for a ghost.
 * 6. Withdrawn (timeout, cancel, failed try): leave.c deletes until gone.
 * 7. A try (no wait) lists first, behind a sync, in whatever session there is:
 *    who is there already makes it busy, and nothing was written. Otherwise it
 *    goes on with 1, for the list grants nothing. */
#include "store/zookeeper/internal.h"

#include <stdlib.h>
#include <string.h>

#define STALL (100 * DLK_MS)
#define TRIES_MAX 10

/* ---- small things ---- */

void dlk_zk_node_step(struct dlk_zk_node *n, enum dlk_zk_step step) {
  struct dlk_zk_session *s = n->session;
  if (s) {
    s->parked -= n->step == DLK_ZK_PARKED;
    s->ready -= n->step == DLK_ZK_READY;
    s->held -= n->step == DLK_ZK_HELD;
    s->live -= n->step <= DLK_ZK_HELD;
    s->resting -= n->step == DLK_ZK_RESTING;
    s->parked += step == DLK_ZK_PARKED;
    s->ready += step == DLK_ZK_READY;
    s->held += step == DLK_ZK_HELD;
    s->live += step <= DLK_ZK_HELD;
    s->resting += step == DLK_ZK_RESTING;
  }
  n->step = step;
}

bool dlk_zk_node_answered(struct dlk_zk_node *n) {
  n->flying--;
  if (n->step != DLK_ZK_GONE)
    return true;
  if (n->flying == 0) {
    dlk_list_remove(&n->link);
    free(n);
  }
  return false;
}

bool dlk_zk_node_send(struct dlk_zk_node *n, struct dlk_zk_request *r,
                      dlk_zk_answer *answer) {
  if (!dlk_zk_send(n->session, r, answer, n, ++n->tag))
    return false;
  n->flying++;
  return true;
}

bool dlk_zk_node_send_lock(struct dlk_zk_node *n, struct dlk_zk_request *r,
                           dlk_zk_answer *answer) {
  char kept = n->path[n->lock_len];
  n->path[n->lock_len] = '\0';
  r->path = n->path;
  bool ok = dlk_zk_node_send(n, r, answer);
  n->path[n->lock_len] = kept;
  return ok;
}

void dlk_zk_node_confirms(struct dlk_zk_node *n, int64_t now) {
  n->confirm = dlk_zk_confirm_sent(&n->session->confirm, now);
  n->confirm_tag = n->tag;
}

void dlk_zk_node_confirmed(struct dlk_zk_node *n, uint32_t tag, bool ok) {
  if (tag == n->confirm_tag)
    dlk_zk_session_confirmed(n->session, n->confirm, ok);
}

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_zk_node_resume(DLK_CONTAINER(timer, struct dlk_zk_node, timer));
}

void dlk_zk_node_stall(struct dlk_zk_node *n) {
  struct dlk_zk_store *st = n->store;
  n->tag++;
  if (n->session && n->session->state == DLK_ZK_CONNECTED)
    st->host->timer_set(st->host, &n->timer, dlk_zk_now(st) + STALL);
}

/* What was asked about the old name is answered for nobody. */
void dlk_zk_node_forget_name(struct dlk_zk_node *n) {
  if (n->session && n->session->confirm_node == n)
    n->session->confirm_node = NULL;
  dlk_map_remove(&n->store->by_guid, &n->by_guid);
  dlk_zk_watch_drop(n);
  n->path[n->lock_len] = '\0';
  n->czxid = 0;
  n->cut = n->downgraded = false;
}

const char *dlk_zk_node_sibling(struct dlk_zk_node *n, const char *name) {
  struct dlk_buf *b = &n->store->scratch;
  dlk_buf_clear(b);
  dlk_buf_add(b, n->path, n->lock_len);
  return dlk_zk_path(b, n->lock_len, name);
}

/* ---- create ---- */

static void on_parent(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  (void)tag;
  if (r->rc == DLK_ZK_NOAUTH)
    n->denied = true;
  dlk_zk_node_answered(n);
}

static bool make_parent(struct dlk_zk_node *n, size_t len,
                        enum dlk_zk_mode mode) {
  char kept = n->path[len];
  n->path[len] = '\0';
  struct dlk_zk_request r = {
      .verb = DLK_ZK_CREATE, .path = n->path, .data = "", .mode = mode};
  bool ok = dlk_zk_node_send(n, &r, on_parent);
  n->path[len] = kept;
  return ok;
}

/* Usually only the lock's own container is missing; if that was not all,
 * everything above it. They leave together with the next create. */
static bool make_parents(struct dlk_zk_node *n) {
  size_t chroot = n->store->chroot;
  if (n->tries > 1)
    for (size_t i = 1; i < n->lock_len; i++)
      if (n->path[i] == '/' &&
          !make_parent(n, i,
                       i <= chroot ? DLK_ZK_PERSISTENT : DLK_ZK_CONTAINER))
        return false;
  return make_parent(n, n->lock_len, DLK_ZK_CONTAINER);
}

static void on_created(void *who, uint32_t tag, const struct dlk_zk_reply *r);

static bool send_create(struct dlk_zk_node *n) {
  struct dlk_zk_store *st = n->store;
  struct dlk_buf *data = &st->scratch;
  char name[DLK_ZK_NAME_MAX];
  dlk_buf_clear(data);
  dlk_zk_data_format(data, n->lease);
  if (data->failed)
    return false;
  dlk_zk_name_format(name, n->want.units, n->want.cap, n->guid, st->client);
  n->path[n->lock_len] = '/';
  memcpy(n->path + n->lock_len + 1, name, strlen(name) + 1);
  n->sent = dlk_zk_now(st);
  struct dlk_zk_request r = {.verb = DLK_ZK_CREATE,
                             .path = n->path,
                             .data = data->data,
                             .len = data->len,
                             .mode = DLK_ZK_EPHEMERAL_SEQUENTIAL};
  bool ok = dlk_zk_node_send(n, &r, on_created);
  n->path[n->lock_len] = '\0';
  if (ok)
    dlk_zk_node_confirms(n, n->sent);
  return ok;
}

static bool new_guid(struct dlk_zk_node *n) {
  struct dlk_zk_store *st = n->store;
  unsigned char random[DLK_ZK_GUID / 2];
  st->host->random(st->host, random, sizeof random);
  dlk_zk_hex(n->guid, random, sizeof random);
  return dlk_map_put(&st->by_guid, &n->by_guid, n->guid, DLK_ZK_GUID);
}

/* A list that could not be sent (no memory) is asked for later. */
static void start(struct dlk_zk_node *n) {
  dlk_zk_node_forget_name(n);
  n->denied = false;
  if (n->leaving || !n->lease) {
    dlk_zk_finish(n, DLK_OK);
    return;
  }
  if (!n->wait && !n->peeked) {
    dlk_zk_line_peek(n);
    return;
  }
  if (!new_guid(n) || (n->tries > 0 && !make_parents(n)) || !send_create(n)) {
    n->outcome = DLK_UNAVAILABLE;
    dlk_zk_finish(n, DLK_OK);
    return;
  }
  dlk_zk_node_step(n, DLK_ZK_CREATING);
  n->first_list = dlk_zk_line_list(n);
  dlk_zk_session_tick(n->session);
}

static void created(struct dlk_zk_node *n, const char *path, int32_t seq,
                    int64_t czxid) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  n->path[n->lock_len] = '/';
  memcpy(n->path + n->lock_len + 1, name, strlen(name) + 1);
  n->seq = seq;
  n->czxid = czxid;
  n->tries = 0;
  dlk_zk_node_step(n, DLK_ZK_LISTING);
  if (n->leaving)
    dlk_zk_leave(n, n->outcome);
  else if (!n->first_list)
    dlk_zk_node_relist(n);
}

static bool is_own_name(const struct dlk_zk_node *n, const char *path,
                        struct dlk_zk_entry *e) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  return strlen(name) < dlk_zk_name_room(n->want.units) &&
         dlk_zk_name_parse(name, e) &&
         memcmp(e->guid, n->guid, DLK_ZK_GUID) == 0;
}

static void fail(struct dlk_zk_node *n, enum dlk_code code) {
  n->outcome = code;
  dlk_zk_finish(n, DLK_OK);
}

static void no_parent(struct dlk_zk_node *n) {
  if (n->denied)
    fail(n, DLK_DENIED);
  else if (++n->tries > TRIES_MAX)
    fail(n, DLK_UNAVAILABLE);
  else
    start(n);
}

static void on_created(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  struct dlk_zk_entry e;
  dlk_zk_node_confirmed(n, tag, r->rc == DLK_ZK_OK);
  if (!dlk_zk_node_answered(n))
    return;
  if (r->rc == DLK_ZK_OK && is_own_name(n, r->path, &e)) {
    created(n, r->path, e.seq, r->stat.czxid);
  } else if (r->rc == DLK_ZK_NONODE) {
    no_parent(n);
  } else if (r->rc == DLK_ZK_NOAUTH) {
    fail(n, DLK_DENIED);
  } else if (r->rc == DLK_ZK_CUT || r->rc == DLK_ZK_OK) {
    dlk_zk_node_step(n, DLK_ZK_UNSETTLED);
    if (n->leaving)
      dlk_zk_node_end_op(n);
    dlk_zk_node_stall(n);
  } else {
    fail(n, dlk_zk_code(r->rc));
  }
}

/* ---- a create whose answer was lost ---- */

static void on_adopted(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  struct dlk_zk_entry e;
  if (!dlk_zk_node_answered(n) || tag != n->tag)
    return;
  if (r->rc == DLK_ZK_OK && r->stat.owner == n->session->id &&
      is_own_name(n, n->path, &e)) {
    n->first_list = false;
    created(n, n->path, e.seq, r->stat.czxid);
  } else if (r->rc == DLK_ZK_OK || r->rc == DLK_ZK_NONODE) {
    start(n);
  } else {
    dlk_zk_node_step(n, DLK_ZK_UNSETTLED);
    dlk_zk_node_stall(n);
  }
}

static const char *find_own(struct dlk_zk_node *n,
                            const struct dlk_zk_reply *r) {
  struct dlk_zk_entry e;
  for (size_t i = 0; i < r->count; i++)
    if (is_own_name(n, r->names[i], &e))
      return r->names[i];
  return NULL;
}

static void on_searched(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  if (!dlk_zk_node_answered(n) || tag != n->tag)
    return;
  if (r->rc != DLK_ZK_OK && r->rc != DLK_ZK_NONODE) {
    dlk_zk_node_step(n, DLK_ZK_UNSETTLED);
    dlk_zk_node_stall(n);
    return;
  }
  const char *name = find_own(n, r);
  if (!name) {
    start(n);
    return;
  }
  n->path[n->lock_len] = '/';
  memcpy(n->path + n->lock_len + 1, name, strlen(name) + 1);
  struct dlk_zk_request get = {.verb = DLK_ZK_GET, .path = n->path};
  if (!dlk_zk_node_send(n, &get, on_adopted)) {
    dlk_zk_node_step(n, DLK_ZK_UNSETTLED);
    dlk_zk_node_stall(n);
  }
}

static void on_synced(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  if (!dlk_zk_node_answered(n) || tag != n->tag)
    return;
  struct dlk_zk_request list = {.verb = DLK_ZK_CHILDREN};
  bool synced = r->rc == DLK_ZK_OK || r->rc == DLK_ZK_NONODE;
  if (!synced || !dlk_zk_node_send_lock(n, &list, on_searched)) {
    dlk_zk_node_step(n, DLK_ZK_UNSETTLED);
    dlk_zk_node_stall(n);
  }
}

static void settle(struct dlk_zk_node *n) {
  struct dlk_zk_request sync = {.verb = DLK_ZK_SYNC};
  n->path[n->lock_len] = '\0';
  if (dlk_zk_node_send_lock(n, &sync, on_synced))
    dlk_zk_node_step(n, DLK_ZK_SETTLING);
  else
    dlk_zk_node_stall(n);
}

/* ---- turns of fate ---- */

void dlk_zk_node_vanished(struct dlk_zk_node *n) {
  if (n->step == DLK_ZK_HELD)
    dlk_zk_lose(n, "its node was deleted", true);
  else if (n->step == DLK_ZK_RESTING)
    dlk_zk_finish(n, DLK_OK);
  else if (n->step >= DLK_ZK_LISTING && n->step <= DLK_ZK_READY)
    start(n);
}

void dlk_zk_node_resume(struct dlk_zk_node *n) {
  if (!n->session || n->session->state != DLK_ZK_CONNECTED)
    return;
  if (n->step != DLK_ZK_RESTING)
    n->store->host->timer_clear(n->store->host, &n->timer);
  switch (n->step) {
  case DLK_ZK_PARKED:
  case DLK_ZK_PEEKING:
    start(n);
    break;
  case DLK_ZK_UNSETTLED:
    settle(n);
    break;
  case DLK_ZK_LISTING:
  case DLK_ZK_WAITING:
  case DLK_ZK_READY:
    dlk_zk_node_relist(n);
    break;
  case DLK_ZK_RESTING:
    if (dlk_zk_now(n->store) < n->rest_until)
      break;
    dlk_zk_delete(n);
    dlk_zk_count_busy(n);
    break;
  case DLK_ZK_LEAVING:
    dlk_zk_delete(n);
    break;
  case DLK_ZK_HELD:
    dlk_zk_hold_resume(n);
    break;
  case DLK_ZK_CREATING:
  case DLK_ZK_SETTLING:
  case DLK_ZK_GONE:
    break;
  }
}

static void attach(struct dlk_zk_node *n, struct dlk_zk_session *s) {
  n->session = s;
  n->step = DLK_ZK_PARKED;
  s->parked++;
  s->live++;
  s->node_count++;
  dlk_list_append(&s->nodes, &n->link);
}

static void join(struct dlk_zk_node *n) {
  bool looks = !n->wait && !n->peeked;
  struct dlk_zk_session *s =
      looks ? dlk_zk_session_any(n->store) : dlk_zk_session_pick(n->store);
  if (!s) {
    fail(n, DLK_UNAVAILABLE);
    return;
  }
  attach(n, s);
  if (s->state == DLK_ZK_CONNECTED)
    start(n);
}

void dlk_zk_node_rejoin(struct dlk_zk_node *n) {
  struct dlk_zk_store *st = n->store;
  struct dlk_zk_session *s = n->session;
  dlk_zk_node_forget_name(n);
  dlk_zk_node_step(n, DLK_ZK_GONE);
  s->node_count--;
  dlk_list_remove(&n->link);
  dlk_zk_session_tidy(s);
  n->session = NULL;
  n->tag++;
  n->tries = 0;
  st->host->timer_clear(st->host, &n->timer);
  join(n);
}

/* The session is over and with it the node, if there was one: what is held
 * is lost, what was to go is gone, what waits joins the next session. */
void dlk_zk_node_orphaned(struct dlk_zk_node *n, enum dlk_code code) {
  struct dlk_zk_store *st = n->store;
  if (n->step == DLK_ZK_HELD) {
    dlk_zk_lose(n, "the session is over", true);
    return;
  }
  bool over = n->step >= DLK_ZK_RESTING || n->leaving || !n->lease;
  if (over || code != DLK_OK || st->stopping) {
    n->cut = false;
    if (!over)
      n->outcome = code == DLK_OK ? DLK_UNAVAILABLE : code;
    dlk_zk_finish(n, code == DLK_CLOSED ? code : DLK_LOST);
    return;
  }
  dlk_zk_node_rejoin(n);
}

void dlk_zk_acquire(struct dlk_zk_store *st, struct dlk_op *op) {
  struct dlk_want want = op->lease->want;
  struct dlk_buf path = {0};
  if (want.cap > 0 && want.units > want.cap) {
    dlk_zk_done_text(st, op, DLK_INVALID,
                     "more permits are asked for than there are");
    return;
  }
  dlk_zk_lock_path(st, &path, op->key, op->key_len);
  /* The lock's path, '/', the name. */
  size_t size =
      sizeof(struct dlk_zk_node) + path.len + 1 + dlk_zk_name_room(want.units);
  struct dlk_zk_node *n = path.failed ? NULL : calloc(1, size);
  if (!n) {
    dlk_buf_free(&path);
    dlk_zk_done(st, op, DLK_UNAVAILABLE);
    return;
  }
  memcpy(n->path, path.data, path.len);
  n->lock_len = path.len;
  n->guid = n->path + path.len + 1 + dlk_zk_name_guid_at(want.units, want.cap);
  dlk_buf_free(&path);
  dlk_list_init(&n->link);
  dlk_list_init(&n->fresh);
  dlk_list_init(&n->refs);
  dlk_list_init(&n->extends);
  n->store = st;
  n->lease = op->lease;
  n->op = op;
  n->wait = op->wait;
  n->want = want;
  n->timer.fire = timer_fired;
  n->step = DLK_ZK_GONE;
  ((struct dlk_zk_op_data *)op->data)->node = n;
  join(n);
}
