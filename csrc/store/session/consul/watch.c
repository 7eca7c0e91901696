/* Blocking queries: one for each lock of which something is watched. It asks
 * for the one key, or for the whole lock once two have been watched.
 *
 * A watch compares what its read has shown with what a query shows, so nothing
 * is missed between the two. A query begins behind an index that was seen
 * before the read was sent. A watch that comes while one is under way, which
 * may have been told what the read did not show, begins it anew from nothing.
 * An answer may come after a later read's, or from a deposed leader: one whose
 * index is below what a watch has seen says nothing of that.
 *
 * A watch tells once. One of a dead contender also tells each AGAIN: a list
 * sees then whether it may be buried (asks.c, A4).
 *
 * A query without an answer is asked again after a pause, and ends nothing: the
 * session's proofs tell whether the servers are there. When no new connection
 * is to be had, a look between other requests, by their connection, does
 * instead.
 *
 * MOST queries are under way: with more locks each ends after TURN, and gives
 * its place to the next. Else one lasts for WAIT. */
#include <stdlib.h>
#include <string.h>

#include "store/session/consul/link.h"

#define MOST 16
#define TURN 1
#define WAIT 60
#define AGAIN (500 * DLK_MS)
#define BETWEEN (50 * DLK_MS)

struct folder {
  struct dlk_map_node node; /* by path */
  struct dlk_list watches;
  struct dlk_list turn; /* in l->turns */
  struct dlk_http_call call;
  struct dlk_timer timer;
  struct dlk_ss_link *on;
  bool flying, tree;
  bool looks;    /* it asks, and is answered, at once */
  bool counted;  /* in asks.others: a look goes, or is the next to go */
  int64_t index; /* 0: at once */
  int64_t told;  /* when the last answer came */
  char path[];
};

struct watch {
  struct dlk_list link;
  bool folder, dead;
  int64_t modified;
  size_t count;
  struct dlk_buf key; /* without NUL; a folder's: its prefix */
  char path[];
};

static struct watch *watch_at(struct dlk_list *l) {
  return DLK_CONTAINER(l, struct watch, link);
}

static void free_watch(struct watch *w) {
  dlk_list_remove(&w->link);
  dlk_buf_free(&w->key);
  free(w);
}

static void landed(struct folder *f) {
  f->on->queries -= f->flying;
  f->flying = false;
  if (!f->counted)
    return;
  f->counted = false;
  f->on->asks.others--;
  if (f->on->state == DLK_CONSUL_UP) /* for requests that wait */
    f->on->host->timer_set(f->on->host, &f->on->soon, 0);
}

static void stop(struct folder *f) {
  landed(f);
  dlk_http_drop(&f->call);
  dlk_list_remove(&f->turn);
}

static void free_folder(struct folder *f) {
  stop(f);
  while (!dlk_list_empty(&f->watches))
    free_watch(watch_at(f->watches.next));
  f->on->host->timer_clear(f->on->host, &f->timer);
  dlk_map_remove(&f->on->folders, &f->node);
  free(f);
}

static void on_told(struct dlk_http_call *c);

static void query(struct folder *f) {
  struct dlk_ss_link *l = f->on;
  struct dlk_buf path = {0};
  int64_t wait = l->folders.count > MOST ? TURN : WAIT;
  /* Consul adds up to a sixteenth. */
  int64_t longest = f->looks ? 0 : (wait + wait / 16 + 1) * DLK_SEC;
  const struct watch *w = watch_at(f->watches.next);
  if (dlk_list_empty(&f->watches)) {
    free_folder(f);
    return;
  }
  dlk_list_remove(&f->turn);
  bool mine = f->looks && (f->counted || l->asks.others == 0);
  l->asks.others += mine && !f->counted;
  f->counted |= mine;
  if (f->looks && (!mine || l->http.pools[DLK_HTTP_SHORT].flying > 0)) {
    l->host->timer_set(l->host, &f->timer, l->host->now(l->host) + BETWEEN);
    return;
  }
  dlk_buf_addf(&path, "/v1/kv/");
  if (f->tree)
    dlk_consul_prefix(&path, f->path);
  else
    dlk_buf_add(&path, w->key.data, w->key.len);
  if (!f->looks)
    dlk_buf_addf(&path, "?index=%lld&wait=%llds%s", (long long)f->index,
                 (long long)wait, f->tree ? "&recurse" : "");
  else if (f->tree)
    dlk_buf_addf(&path, "?recurse");
  dlk_buf_add(&path, "", 1);
  f->call.told = on_told;
  f->call.lasts = !f->looks;
  f->flying =
      !path.failed && dlk_http_start(&l->http, &f->call, path.data, NULL, 0,
                                     longest + l->client->conf.io_timeout);
  l->queries += f->flying;
  if (!f->flying) {
    landed(f);
    l->host->timer_set(l->host, &f->timer, l->host->now(l->host) + AGAIN);
  }
  dlk_buf_free(&path);
}

static void take_turns(struct dlk_ss_link *l) {
  while (l->state == DLK_CONSUL_UP && l->queries < MOST &&
         !dlk_list_empty(&l->turns)) {
    struct dlk_list *first = l->turns.next;
    dlk_list_remove(first);
    query(DLK_CONTAINER(first, struct folder, turn));
  }
}

static void line_up(struct folder *f) {
  if (!f->flying && f->turn.next == &f->turn)
    dlk_list_append(&f->on->turns, &f->turn);
  take_turns(f->on);
}

/* f may be gone afterwards. */
static void tell(struct dlk_ss_link *l, struct watch *w, bool gone) {
  dlk_list_remove(&w->link);
  l->events.event(l->user,
                  w->folder ? DLK_SS_CHILD
                  : gone    ? DLK_SS_DELETED
                            : DLK_SS_CHANGED,
                  w->path);
  free_watch(w);
}

/* 0: as it was, or older than what w's read has shown. 1: changed, 2: gone. */
static int compare(const struct watch *w, const struct dlk_consul_answer *a,
                   int64_t index) {
  size_t count = 0;
  int64_t modified = 0;
  if (index < w->modified)
    return 0;
  for (size_t i = 0; i < a->count; i++) {
    const struct dlk_consul_entry *e = &a->at[i];
    bool same = strlen(e->key) == w->key.len;
    if (strncmp(e->key, w->key.data, w->key.len) != 0 || (!w->folder && !same))
      continue;
    count++;
    modified = e->modified > modified ? e->modified : modified;
  }
  return count == w->count && modified == w->modified ? 0 : count == 0 ? 2 : 1;
}

static void judge(struct folder *f, const struct dlk_consul_answer *a,
                  int64_t index) {
  struct dlk_ss_link *l = f->on;
  struct dlk_list todo, changed;
  dlk_list_take(&f->watches, &todo);
  dlk_list_init(&changed);
  while (!dlk_list_empty(&todo)) {
    struct watch *w = watch_at(todo.next);
    dlk_list_remove(&w->link);
    dlk_list_append(compare(w, a, index) ? &changed : &f->watches, &w->link);
  }
  while (!dlk_list_empty(&changed) && l->state == DLK_CONSUL_UP)
    tell(l, watch_at(changed.next),
         compare(watch_at(changed.next), a, index) == 2);
  while (!dlk_list_empty(&changed))
    free_watch(watch_at(changed.next));
}

static void on_told(struct dlk_http_call *c) {
  struct folder *f = DLK_CONTAINER(c, struct folder, call);
  struct dlk_ss_link *l = f->on;
  struct dlk_consul_answer a;
  landed(f);
  f->looks = !f->looks && c->fresh && dlk_consul_silent(c);
  if (l->state != DLK_CONSUL_UP)
    return;
  if (dlk_consul_silent(c)) {
    l->host->timer_set(l->host, &f->timer, l->host->now(l->host) + AGAIN);
    take_turns(l);
    return;
  }
  if (c->status == 404)
    dlk_buf_clear(&c->in);
  bool ok = (c->status == 200 || c->status == 404) && c->index > 0 &&
            dlk_consul_read(&c->in, &a);
  if (c->status == 403 && dlk_consul_retries(l, c)) {
    line_up(f);
    return;
  }
  if (!ok) {
    dlk_consul_cut(l, "a blocking query was refused");
    return;
  }
  f->index = c->index < f->index ? 0 : c->index; /* restored: from nothing */
  f->told = l->host->now(l->host);
  l->seen = c->index > l->seen ? c->index : l->seen;
  judge(f, &a, c->index);
  dlk_consul_free(&a);
  if (l->state != DLK_CONSUL_UP)
    return;
  if (dlk_list_empty(&f->watches))
    free_folder(f);
  else
    line_up(f);
  take_turns(l);
}

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  struct folder *f = DLK_CONTAINER(timer, struct folder, timer);
  struct dlk_ss_link *l = f->on;
  struct dlk_list *at = f->watches.next;
  (void)now;
  while (at != &f->watches && !watch_at(at)->dead)
    at = at->next;
  if (at == &f->watches) {
    line_up(f);
    return;
  }
  struct watch *w = watch_at(at);
  dlk_list_remove(&w->link);
  if (dlk_list_empty(&f->watches)) {
    free_folder(f); /* its query may be for that key alone */
    take_turns(l);
  } else {
    l->host->timer_set(l->host, timer, 0); /* more of them */
  }
  tell(l, w, false);
}

static struct folder *folder_of(struct dlk_ss_link *l, const char *path,
                                size_t len, int64_t index) {
  struct dlk_map_node *n = dlk_map_get(&l->folders, path, len);
  if (n)
    return DLK_CONTAINER(n, struct folder, node);
  struct folder *f = calloc(1, sizeof *f + len + 1);
  if (!f)
    return NULL;
  memcpy(f->path, path, len);
  f->on = l;
  f->index = index;
  f->timer.fire = timer_fired;
  dlk_list_init(&f->watches);
  dlk_list_init(&f->turn);
  if (dlk_map_put(&l->folders, &f->node, f->path, len))
    return f;
  free(f);
  return NULL;
}

bool dlk_consul_watch(struct dlk_ss_link *l, const char *path, bool folder,
                      const struct dlk_consul_sight *sight) {
  size_t len = strlen(path);
  size_t lock = folder ? len : (size_t)(strrchr(path, '/') - path);
  struct watch *w = calloc(1, sizeof *w + len + 1);
  struct folder *f = w ? folder_of(l, path, lock, sight->seen) : NULL;
  if (!f) {
    free(w);
    return false;
  }
  memcpy(w->path, path, len);
  dlk_list_init(&w->link);
  if (folder)
    dlk_consul_prefix(&w->key, path);
  else
    dlk_consul_key(&w->key, path);
  w->folder = folder;
  w->dead = sight->dead;
  w->modified = sight->modified;
  w->count = sight->count;
  bool more = folder || !dlk_list_empty(&f->watches);
  dlk_list_append(&f->watches, &w->link);
  if (w->key.failed) {
    free_watch(w);
    return false;
  }
  if (f->told >= sight->sent || (more && !f->tree)) {
    bool anew = f->flying;
    if (f->told >= sight->sent || sight->seen < f->index)
      f->index = f->told >= sight->sent ? 0 : sight->seen;
    f->tree |= more;
    if (anew)
      stop(f);
  }
  if (w->dead)
    l->host->timer_set(l->host, &f->timer, l->host->now(l->host) + AGAIN);
  line_up(f);
  return true;
}

static void begin(struct dlk_map_node *n, void *arg) {
  struct folder *f = DLK_CONTAINER(n, struct folder, node);
  (void)arg;
  f->index = 0;
  line_up(f);
}

void dlk_consul_watches_renew(struct dlk_ss_link *l) {
  dlk_map_each(&l->folders, begin, NULL);
}

static void end(struct dlk_map_node *n, void *all) {
  struct folder *f = DLK_CONTAINER(n, struct folder, node);
  if (all)
    free_folder(f);
  else
    stop(f);
}

void dlk_consul_watches_end(struct dlk_ss_link *l, bool all) {
  dlk_map_each(&l->folders, end, all ? l : NULL);
}
