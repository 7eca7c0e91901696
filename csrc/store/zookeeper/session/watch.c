/* Who watches which node.
 *
 * One watch per path and session, however many contenders share it; it stays
 * armed until it fires or the session ends, even when nobody cares any more,
 * because the server keeps it as well. It is set by reading the node (a watch
 * set by exists on a node that is gone would stay for ever), and goes with
 * the node: no path is watched that nobody made. A contender that asks for a
 * path that is watched already need not read it again: the watch has not
 * fired, so nothing that the list it just read can show has changed since
 * without an event still to come. Where the children of a lock are watched the
 * list that arms the watch is what all who wait there are judged from, however
 * many they are: nothing between that list and the watch is lost. */
#include "store/zookeeper/query/query.h"

#include <stdlib.h>
#include <string.h>

struct dlk_zk_watch {
  struct dlk_map_node node;
  struct dlk_zk_session *session;
  struct dlk_list refs;
  bool armed, downgraded, revoked, list, own;
  char path[];
};

/* One who wants to hear of it: a contender, or a CHANGE. */
struct dlk_zk_watch_ref {
  struct dlk_list by_watch, by_node;
  struct dlk_zk_node *node;
  struct dlk_zk_ask *ask;
  bool own;
};

static void free_ref(struct dlk_zk_watch_ref *r) {
  dlk_list_remove(&r->by_watch);
  dlk_list_remove(&r->by_node);
  if (r->ask)
    r->ask->watching = NULL;
  free(r);
}

static struct dlk_zk_watch_ref *first_of(struct dlk_list *refs) {
  return DLK_CONTAINER(refs->next, struct dlk_zk_watch_ref, by_watch);
}

static void free_watch(struct dlk_zk_watch *w) {
  struct dlk_zk_session *s = w->session;
  while (!dlk_list_empty(&w->refs))
    free_ref(first_of(&w->refs));
  s->watch_bytes -= w->node.len;
  s->own_watches -= w->own;
  dlk_map_remove(&s->watches, &w->node);
  free(w);
}

/* A waiter lists again after a change; without an answer it must wait. */
static void end_wait(struct dlk_zk_node *n, enum dlk_zk_rc rc) {
  if (n->step != DLK_ZK_WAITING)
    return;
  if (rc == DLK_ZK_OK || rc == DLK_ZK_NONODE)
    dlk_zk_node_relist(n);
  else if (rc == DLK_ZK_NOAUTH)
    dlk_zk_leave(n, DLK_DENIED);
  else
    dlk_zk_node_stall(n);
}

/* Everyone who is told may watch again, or not; each is told once. */
static void tell_all(struct dlk_zk_watch *w,
                     void (*tell)(struct dlk_zk_watch *,
                                  struct dlk_zk_watch_ref *)) {
  struct dlk_list todo;
  dlk_list_take(&w->refs, &todo);
  while (!dlk_list_empty(&todo)) {
    struct dlk_zk_watch_ref *ref = first_of(&todo);
    dlk_list_remove(&ref->by_watch);
    dlk_list_append(&w->refs, &ref->by_watch);
    tell(w, ref);
  }
}

/* It fired (OK: a change; NONODE: the node is gone), or the read failed.
 * Everyone is told, each once: what they do may watch again or not. */
static void over(struct dlk_zk_watch *w, enum dlk_zk_rc rc) {
  struct dlk_list todo;
  dlk_list_take(&w->refs, &todo);
  free_watch(w);
  while (!dlk_list_empty(&todo)) {
    struct dlk_zk_watch_ref *r = first_of(&todo);
    struct dlk_zk_node *n = r->node;
    struct dlk_zk_ask *a = r->ask;
    bool own = r->own;
    free_ref(r);
    if (a)
      dlk_zk_ask_again(a);
    else if (own)
      dlk_zk_own_over(n, rc);
    else
      end_wait(n, rc);
  }
}

static void forget_listed(struct dlk_zk_watch *w,
                          struct dlk_zk_watch_ref *ref) {
  (void)w;
  if (ref->node)
    ref->node->listed = false;
}

/* Who is not listed was deleted. */
static void list_ref_armed(struct dlk_zk_watch *w,
                           struct dlk_zk_watch_ref *ref) {
  struct dlk_zk_node *n = ref->node;
  (void)w;
  if (ref->ask)
    dlk_zk_ask_again(ref->ask);
  else if (n->step == DLK_ZK_WAITING && !n->listed)
    dlk_zk_node_vanished(n);
}

static void ref_armed(struct dlk_zk_watch *w, struct dlk_zk_watch_ref *ref) {
  struct dlk_zk_node *n = ref->node;
  if (ref->ask)
    return;
  if (ref->own)
    dlk_zk_own_armed(n, w->revoked);
  else if (n->step == DLK_ZK_WAITING && (w->downgraded || !n->wait))
    dlk_zk_node_relist(n);
}

static void list_armed(struct dlk_zk_watch *w, const struct dlk_zk_reply *r) {
  w->armed = true;
  tell_all(w, forget_listed);
  if (dlk_zk_line_admit(w->session, r))
    tell_all(w, list_ref_armed);
  else
    over(w, DLK_ZK_MEMORY);
}

static void armed(struct dlk_zk_watch *w, const struct dlk_zk_reply *r) {
  struct dlk_zk_data data;
  dlk_zk_data_parse(r->data, r->len, &data);
  w->armed = true;
  w->downgraded = data.shared;
  w->revoked = data.revoked;
  tell_all(w, ref_armed);
}

static struct dlk_zk_watch *find(struct dlk_zk_session *s, const char *path) {
  struct dlk_map_node *m = dlk_map_get(&s->watches, path, strlen(path));
  return m ? DLK_CONTAINER(m, struct dlk_zk_watch, node) : NULL;
}

static void on_read(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_watch *w = who;
  (void)tag;
  if (r->rc != DLK_ZK_OK)
    over(w, r->rc);
  else if (w->list)
    list_armed(w, r);
  else
    armed(w, r);
}

static bool read_path(struct dlk_zk_watch *w) {
  struct dlk_zk_request r = {.verb = w->list ? DLK_ZK_CHILDREN : DLK_ZK_GET,
                             .path = w->path,
                             .watch = true};
  return dlk_zk_send(w->session, &r, on_read, w, 0);
}

static struct dlk_zk_watch *new_watch(struct dlk_zk_session *s,
                                      const char *path, bool list) {
  size_t len = strlen(path);
  struct dlk_zk_watch *w = calloc(1, sizeof *w + len + 1);
  if (!w)
    return NULL;
  memcpy(w->path, path, len + 1);
  w->session = s;
  w->list = list;
  dlk_list_init(&w->refs);
  if (!dlk_map_put(&s->watches, &w->node, w->path, len) || !read_path(w)) {
    dlk_map_remove(&s->watches, &w->node);
    free(w);
    return NULL;
  }
  s->watch_bytes += len;
  return w;
}

static struct dlk_zk_watch_ref *add_ref(struct dlk_zk_session *s,
                                        const char *path, bool list,
                                        struct dlk_zk_watch **out) {
  struct dlk_zk_watch_ref *ref = calloc(1, sizeof *ref);
  if (!ref)
    return NULL;
  struct dlk_zk_watch *w = find(s, path);
  if (!w)
    w = new_watch(s, path, list);
  if (!w) {
    free(ref);
    return NULL;
  }
  dlk_list_init(&ref->by_watch);
  dlk_list_init(&ref->by_node);
  dlk_list_append(&w->refs, &ref->by_watch);
  *out = w;
  return ref;
}

/* An own watch that somebody else armed before is armed for its owner too. */
bool dlk_zk_watch_add(struct dlk_zk_node *n, const char *path, bool own,
                      bool list) {
  struct dlk_zk_watch *w;
  struct dlk_zk_watch_ref *ref = add_ref(n->session, path, list, &w);
  if (!ref)
    return false;
  ref->node = n;
  ref->own = own;
  if (own && !w->armed && !w->own) {
    n->session->own_watches++;
    w->own = true;
  }
  dlk_list_append(&n->refs, &ref->by_node);
  if (own && w->armed)
    dlk_zk_own_armed(n, w->revoked);
  return true;
}

bool dlk_zk_watch_add_ask(struct dlk_zk_ask *a, const char *path, bool list) {
  struct dlk_zk_watch *w;
  struct dlk_zk_watch_ref *ref = add_ref(a->session, path, list, &w);
  if (!ref)
    return false;
  ref->ask = a;
  a->watching = ref;
  return true;
}

void dlk_zk_watch_drop_ask(struct dlk_zk_ask *a) {
  if (a->watching)
    free_ref(a->watching);
}

void dlk_zk_watch_drop(struct dlk_zk_node *n) {
  while (!dlk_list_empty(&n->refs))
    free_ref(DLK_CONTAINER(n->refs.next, struct dlk_zk_watch_ref, by_node));
  n->watched = false;
}

int dlk_zk_watch_knows(struct dlk_zk_session *s, const char *path) {
  struct dlk_zk_watch *w = find(s, path);
  if (!w || !w->armed)
    return 0;
  return w->downgraded ? 2 : 1;
}

static void list_ref_changed(struct dlk_zk_watch *w,
                             struct dlk_zk_watch_ref *ref) {
  (void)w;
  if (ref->ask)
    dlk_zk_ask_again(ref->ask);
}

static bool has_nodes(const struct dlk_zk_watch *w) {
  for (struct dlk_list *l = w->refs.next; l != &w->refs; l = l->next)
    if (DLK_CONTAINER(l, struct dlk_zk_watch_ref, by_watch)->node)
      return true;
  return false;
}

/* The children of a lock on which contenders wait changed: one list for all of
 * them arms the watch anew, and is what they are judged from. False: there are
 * none, or no memory. */
static bool children_changed(struct dlk_zk_watch *w) {
  if (!w->list || !has_nodes(w))
    return false;
  w->armed = false;
  if (!read_path(w))
    return false;
  tell_all(w, list_ref_changed);
  return true;
}

void dlk_zk_watch_event(struct dlk_zk_session *s, enum dlk_zk_event event,
                        const char *path) {
  struct dlk_zk_watch *w = find(s, path);
  if (!w || !w->armed)
    return;
  if (event != DLK_ZK_CHILD || !children_changed(w))
    over(w, event == DLK_ZK_DELETED ? DLK_ZK_NONODE : DLK_ZK_OK);
}

void dlk_zk_watch_free_all(struct dlk_zk_session *s) {
  for (size_t i = 0; i < s->watches.size; i++)
    while (s->watches.buckets[i])
      free_watch(
          DLK_CONTAINER(s->watches.buckets[i], struct dlk_zk_watch, node));
}
