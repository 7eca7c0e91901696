/* From the library's threads to the loop.
 *
 * A callback copies its data into its request's context, allocated before
 * sending, and moves it to `ready`: handing over cannot fail. Without memory
 * for the data the answer says MEMORY; an event without memory ends the link.
 * `ready` keeps the library's order; one post at a time drains it.
 *
 * A request that leads another (a create, its list) wakes nobody while anything
 * is under way: that is answered later, if only by a cut. If the other was not
 * sent or refused at once, the leader's answer or the refusal wakes, and both
 * are in `ready` then. */
#include "store/zookeeper/client/completions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/format/names.h"
#include "store/session/format/traced.h"

/* ---- any thread ---- */

void dlk_zk_link_unref(struct dlk_zk_link *link) {
  if (atomic_fetch_sub(&link->refs, 1) != 1)
    return;
  pthread_cond_destroy(&link->wake);
  pthread_mutex_destroy(&link->lock);
  free(link->auth);
  free(link->hosts);
  free(link);
}

void dlk_zk_link_kick(struct dlk_zk_link *link) {
  if (link->posted || !link->host)
    return;
  link->posted = true;
  link->host->post(link->host, &link->post);
}

static struct dlk_zk_completion *new_completion(struct dlk_zk_link *link,
                                                size_t room) {
  struct dlk_zk_completion *f = calloc(1, sizeof *f + room);
  if (!f)
    return NULL;
  dlk_list_init(&f->link);
  f->owner = link;
  f->room = room;
  return f;
}

/* A create answers with its path and at most 11 digits. The trace's copy of the
 * path stands behind. */
struct dlk_zk_completion *
dlk_zk_completion_new(struct dlk_zk_link *link,
                      const struct dlk_zk_request *request) {
  size_t room = strlen(request->path ? request->path : "") + 16;
  const char *path = DLK_TRACING ? dlk_zk_request_path(request) : NULL;
  size_t more = path ? strlen(path) + 1 : 0;
  struct dlk_zk_completion *f = new_completion(link, room + more);
  if (!f)
    return NULL;
  f->room = room;
  f->verb = request->verb;
  f->leads = request->leads;
  if (path)
    f->path = memcpy(f->text + room, path, more);
  pthread_mutex_lock(&link->lock);
  dlk_list_append(&link->flying, &f->link);
  pthread_mutex_unlock(&link->lock);
  return f;
}

static void free_completion(struct dlk_zk_completion *f) {
  free(f->data);
  free(f);
}

static void queue(struct dlk_zk_link *link, struct dlk_zk_completion *f) {
  pthread_mutex_lock(&link->lock);
  dlk_list_remove(&f->link);
  dlk_list_append(&link->ready, &f->link);
  link->seen |= f->item == DLK_ZK_ITEM_STATE && f->kind == ZOO_CONNECTED_STATE;
  if (!f->leads || dlk_list_empty(&link->flying))
    dlk_zk_link_kick(link);
  pthread_mutex_unlock(&link->lock);
}

void dlk_zk_completion_ready(struct dlk_zk_completion *f, int rc) {
  f->rc = rc;
  queue(f->owner, f);
}

static void free_list(struct dlk_list *list) {
  while (!dlk_list_empty(list)) {
    struct dlk_list *at = list->next;
    dlk_list_remove(at);
    free_completion(DLK_CONTAINER(at, struct dlk_zk_completion, link));
  }
}

void dlk_zk_completions_free(struct dlk_zk_link *link) {
  pthread_mutex_lock(&link->lock);
  free_list(&link->flying);
  free_list(&link->ready);
  pthread_mutex_unlock(&link->lock);
}

/* ---- the library's callbacks ---- */

static struct dlk_zk_completion *completion_of(const void *data) {
  return (struct dlk_zk_completion *)(uintptr_t)data;
}

static void copy_stat(struct dlk_zk_completion *f, const struct Stat *stat) {
  if (!stat)
    return;
  f->stat.fence = stat->czxid;
  f->stat.ctime_ms = stat->ctime;
  f->stat.mtime_ms = stat->mtime;
  f->stat.owner = stat->ephemeralOwner;
  f->stat.version = stat->version;
  f->stat.children = stat->numChildren;
}

static void copy_text(struct dlk_zk_completion *f, const char *text) {
  if (text && f->room > 0)
    snprintf(f->text, f->room, "%s", text);
}

void dlk_zk_on_void(int rc, const void *data) {
  dlk_zk_completion_ready(completion_of(data), rc);
}

void dlk_zk_on_stat(int rc, const struct Stat *stat, const void *data) {
  copy_stat(completion_of(data), stat);
  dlk_zk_completion_ready(completion_of(data), rc);
}

void dlk_zk_on_string(int rc, const char *value, const void *data) {
  (void)value;
  dlk_zk_completion_ready(completion_of(data), rc);
}

void dlk_zk_on_created(int rc, const char *value, const struct Stat *stat,
                       const void *data) {
  copy_stat(completion_of(data), stat);
  copy_text(completion_of(data), value);
  dlk_zk_completion_ready(completion_of(data), rc);
}

void dlk_zk_on_data(int rc, const char *value, int len, const struct Stat *stat,
                    const void *data) {
  struct dlk_zk_completion *f = completion_of(data);
  copy_stat(f, stat);
  if (rc == ZOK && value && len > 0) {
    f->data = malloc((size_t)len);
    if (f->data) {
      memcpy(f->data, value, (size_t)len);
      f->len = (size_t)len;
    } else {
      rc = ZSYSTEMERROR;
    }
  }
  dlk_zk_completion_ready(f, rc);
}

void dlk_zk_on_names(int rc, const struct String_vector *names,
                     const void *data) {
  struct dlk_zk_completion *f = completion_of(data);
  if (rc == ZOK && names) {
    f->count = (size_t)names->count;
    f->data = (char *)(void *)dlk_ss_names_copy(names->data, f->count);
    if (!f->data) {
      f->count = 0;
      rc = ZSYSTEMERROR;
    }
  }
  dlk_zk_completion_ready(f, rc);
}

/* zoo_client_id and zoo_recv_timeout only read. */
void dlk_zk_on_watch(zhandle_t *zh, int type, int state, const char *path,
                     void *context) {
  struct dlk_zk_link *link = context;
  bool session = type == ZOO_SESSION_EVENT;
  size_t room = session || !path ? 1 : strlen(path) + 1;
  struct dlk_zk_completion *f = new_completion(link, room);
  if (!f) {
    pthread_mutex_lock(&link->lock);
    link->memory_failed = true;
    dlk_zk_link_kick(link);
    pthread_mutex_unlock(&link->lock);
    return;
  }
  f->item = session ? DLK_ZK_ITEM_STATE : DLK_ZK_ITEM_EVENT;
  f->kind = session ? state : type;
  if (session && state == ZOO_CONNECTED_STATE) {
    f->session = zoo_client_id(zh)->client_id;
    f->timeout = (int64_t)zoo_recv_timeout(zh) * DLK_MS;
  }
  copy_text(f, session ? NULL : path);
  queue(link, f);
}

/* ---- by the loop's owner ---- */

static int64_t now(const struct dlk_zk_completion *f) {
  return f->owner->host->now(f->owner->host);
}

static void answer(struct dlk_zk_completion *f) {
  struct dlk_ss_reply r = {.rc = dlk_zk_code_rc(f->rc), .sent = f->sent};
  r.text = dlk_zk_code_text(f->rc, f->owner->odd);
  r.path = f->text;
  r.stat = f->stat;
  if (f->count > 0) {
    r.names = (char *const *)(void *)f->data;
    r.count = f->count;
  } else {
    r.data = f->data;
    r.len = f->len;
  }
  for (size_t i = 0; i < f->part_count; i++) {
    r.part_rc[i] = dlk_zk_code_rc(f->part[i].err);
    r.part_version[i] = f->part_stat[i].version;
  }
  if (DLK_TRACING)
    dlk_ss_trace("zookeeper", now(f), "answer", f->path, "%s %s, after %s ms",
                 dlk_zk_verb_word(f->verb), f->rc == ZOK ? "good" : r.text,
                 dlk_trace_ms(now(f) - f->sent).text);
  f->answer(f->who, f->tag, &r);
}

static void state_changed(struct dlk_zk_link *link,
                          const struct dlk_zk_completion *f) {
  const struct dlk_ss_events *e = link->events;
  if (DLK_TRACING)
    dlk_ss_trace("zookeeper", now(f), "session", NULL, "%s",
                 f->kind == ZOO_CONNECTED_STATE ? "connected" : "changed");
  if (f->kind == ZOO_CONNECTED_STATE)
    e->connected(link->user, f->session, f->timeout);
  else if (f->kind == ZOO_EXPIRED_SESSION_STATE)
    e->ended(link->user, DLK_SS_END_EXPIRED, "the session expired");
  else if (f->kind == ZOO_AUTH_FAILED_STATE)
    e->ended(link->user, DLK_SS_END_DENIED, "authentication failed");
  else if (f->kind == ZOO_CONNECTING_STATE)
    e->away(link->user, "the connection was lost");
}

static void event_came(struct dlk_zk_link *link,
                       const struct dlk_zk_completion *f) {
  enum dlk_ss_event event = DLK_SS_CHANGED;
  if (f->kind == ZOO_DELETED_EVENT)
    event = DLK_SS_DELETED;
  else if (f->kind == ZOO_CHILD_EVENT)
    event = DLK_SS_CHILD;
  if (DLK_TRACING)
    dlk_ss_trace("zookeeper", now(f), "event", f->text, "%s",
                 event == DLK_SS_DELETED ? "deleted"
                 : event == DLK_SS_CHILD ? "children"
                                         : "changed");
  link->events->event(link->user, event, f->text);
}

/* The library may connect before zookeeper_init2 has returned: no handle to
 * send on yet. */
static struct dlk_zk_completion *next(struct dlk_zk_link *link) {
  struct dlk_zk_completion *f = NULL;
  pthread_mutex_lock(&link->lock);
  if (link->zh && !link->muted && !dlk_list_empty(&link->ready)) {
    f = DLK_CONTAINER(link->ready.next, struct dlk_zk_completion, link);
    dlk_list_remove(&f->link);
  }
  pthread_mutex_unlock(&link->lock);
  return f;
}

static void troubles(struct dlk_zk_link *link) {
  pthread_mutex_lock(&link->lock);
  int problem = link->open_error;
  bool memory = link->memory_failed, shut = link->shut;
  link->open_error = 0;
  link->memory_failed = link->shut = false;
  pthread_mutex_unlock(&link->lock);
  if (shut)
    link->events->shut(link->user);
  char text[160];
  enum dlk_ss_end end = DLK_SS_END_FAILED;
  if (dlk_errno_code(problem) == DLK_DENIED) {
    end = DLK_SS_END_BARRED;
    snprintf(text, sizeof text, "%s", strerror(problem));
  } else if (problem == ENOENT || problem == EINVAL)
    snprintf(text, sizeof text, "no host in its URL can be resolved");
  else if (problem == EAGAIN)
    snprintf(
        text, sizeof text,
        "no thread to be had (raise ulimit -u, or pids.max of the container)");
  else if (problem)
    snprintf(text, sizeof text, "no connection can be begun (%s)",
             strerror(problem));
  else if (memory)
    snprintf(text, sizeof text, "out of memory");
  else
    return;
  link->events->ended(link->user, end, text);
}

void dlk_zk_link_run(struct dlk_post *post) {
  struct dlk_zk_link *link = DLK_CONTAINER(post, struct dlk_zk_link, post);
  pthread_mutex_lock(&link->lock);
  link->posted = false;
  pthread_mutex_unlock(&link->lock);
  for (struct dlk_zk_completion *f; (f = next(link));) {
    if (f->item == DLK_ZK_ITEM_ANSWER)
      answer(f);
    else if (f->item == DLK_ZK_ITEM_STATE)
      state_changed(link, f);
    else
      event_came(link, f);
    free_completion(f);
  }
  if (!link->muted)
    troubles(link);
  pthread_mutex_lock(&link->lock);
  bool gone =
      !link->posted && !link->told_gone && (link->through || !link->host);
  if (gone) {
    link->told_gone = true;
    link->host = NULL;
  }
  pthread_mutex_unlock(&link->lock);
  if (gone) {
    link->events->gone(link->owner);
    dlk_zk_link_unref(link);
  }
}
