/* The watch stream: one for a session, opened with its first watch.
 *
 * A watch begins at the revision behind its read, so nothing is missed between
 * the two; begun again on a new connection, it is told what came meanwhile. It
 * tells once. A watch that the server cancels (its revision is compacted) tells
 * of a change, too: the recipe reads again. Of one that it refuses it does not
 * always tell the id. All are begun anew then, on another connection. */
#include <stdlib.h>
#include <string.h>

#include "store/session/etcd/link.h"

struct watch {
  struct dlk_map_node node; /* by id */
  int64_t id, from;
  bool folder;
  char path[];
};

static void tell(struct dlk_ss_link *l, struct watch *w,
                 enum dlk_ss_event event) {
  dlk_map_remove(&l->watches, &w->node);
  l->events.event(l->user, event, w->path);
  free(w);
}

static void unwatch(struct dlk_ss_link *l, int64_t id) {
  size_t mark = dlk_grpc_open(&l->watcher);
  dlk_etcd_unwatch(&l->watcher.out, id);
  (void)dlk_grpc_say(&l->watcher, mark);
}

static void on_told(struct dlk_grpc_call *c) {
  struct dlk_ss_link *l =
      (struct dlk_ss_link *)(void *)c->owner; /* its first member */
  struct dlk_etcd_bytes m;
  struct dlk_etcd_watched got;
  bool deleted;
  while (!l->closed && dlk_grpc_next(c, &m)) {
    if (!dlk_etcd_watched(m, &got)) {
      dlk_net_conn_lost(&l->grpc.net, "the server's answer broke the protocol");
      return;
    }
    if (got.canceled && got.id < 0) { /* a new watch is refused, and unnamed */
      dlk_net_conn_lost(&l->grpc.net, "the member refuses a watch");
      return;
    }
    struct dlk_map_node *n =
        dlk_map_get(&l->watches, (const char *)&got.id, sizeof got.id);
    struct watch *w = n ? DLK_CONTAINER(n, struct watch, node) : NULL;
    bool event = dlk_etcd_next_event(&got.events, &deleted);
    if (!w || (!event && !got.canceled))
      continue;
    if (!got.canceled && !c->over) /* else it would open another stream */
      unwatch(l, w->id);
    tell(l, w,
         w->folder          ? DLK_SS_CHILD
         : event && deleted ? DLK_SS_DELETED
                            : DLK_SS_CHANGED);
  }
  if (!l->closed && c->over)
    dlk_etcd_link_lost(l, c);
}

/* False: no memory. */
static bool ask(struct dlk_ss_link *l, const struct watch *w) {
  struct dlk_grpc_call *c = &l->watcher;
  struct dlk_etcd_node node = {0};
  dlk_grpc_init_call(c, &l->grpc, "Watch/Watch", true, on_told);
  if (w->folder)
    dlk_buf_addf(&node.key, "%s/", w->path);
  else
    dlk_etcd_node_of(&node, w->path);
  size_t mark = dlk_grpc_open(c);
  if (!node.key.failed)
    dlk_etcd_watch(&c->out,
                   (struct dlk_etcd_bytes){node.key.data, node.key.len},
                   w->folder, w->id, w->from);
  bool ok = !node.key.failed && dlk_grpc_say(c, mark);
  dlk_buf_free(&node.key);
  dlk_etcd_link_wake(l);
  return ok;
}

bool dlk_etcd_watch_path(struct dlk_ss_link *l, const char *path, bool folder,
                         int64_t revision) {
  size_t len = strlen(path);
  struct watch *w = calloc(1, sizeof *w + len + 1);
  if (!w)
    return false;
  memcpy(w->path, path, len);
  w->id = ++l->last_watch;
  w->from = revision + 1;
  w->folder = folder;
  if (dlk_map_put(&l->watches, &w->node, (const char *)&w->id, sizeof w->id) &&
      ask(l, w))
    return true;
  dlk_map_remove(&l->watches, &w->node);
  free(w);
  return false;
}

static void renew(struct dlk_map_node *n, void *link) {
  struct dlk_ss_link *l = link;
  if (!ask(l, DLK_CONTAINER(n, struct watch, node)))
    l->watcher.out.failed = true;
}

void dlk_etcd_watches_renew(struct dlk_ss_link *l) {
  if (l->watches.count == 0)
    return;
  dlk_map_each(&l->watches, renew, l);
  if (l->watcher.out.failed || !l->watcher.on)
    dlk_net_conn_lost(&l->grpc.net, "out of memory");
}

static void drop(struct dlk_map_node *n, void *link) {
  dlk_map_remove(&((struct dlk_ss_link *)link)->watches, n);
  free(DLK_CONTAINER(n, struct watch, node));
}

void dlk_etcd_watches_end(struct dlk_ss_link *l) {
  dlk_map_each(&l->watches, drop, l);
}
