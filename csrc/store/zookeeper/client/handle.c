/* The shell around libzookeeper_mt.
 *
 * Threads. Each link has one session thread: it runs zookeeper_init2 (looks
 * names up), sleeps, and runs zookeeper_close when told; both may block. It
 * exists from the start, so closing cannot fail. The library starts two threads
 * per handle and aborts without them (assert), so they are tried out right
 * before: a program at its limit of threads is still not safe. All block every
 * signal (core/native.h). There callbacks only copy and queue; the loop's owner
 * does the rest.
 *
 * Life. A link is one handle and one session: no answer of an old session
 * reaches a new one. References: the owner's (open to close), the session
 * thread's. After close only `gone` is called, once the session thread is
 * through or `abandon` was called, and never while our post is queued. The
 * thread may go on after that; it touches the link only. It frees contexts that
 * the library dropped, after zookeeper_close.
 *
 * The library's log is off unless somebody lowered its level: DEBUG has memory
 * bugs, and all levels share a buffer without a lock. Names are looked up on
 * connecting only (resolution delay -1): the library's thread has heartbeats to
 * send. A session not open after a while may be one whose servers close at
 * once: hosts.c finds out. */
#include "store/zookeeper/client/completions.h"
#include "store/zookeeper/client/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/native.h"

#define STACK_SIZE ((size_t)512 * 1024)
#define LIBRARY_THREADS 2
#define PATIENCE (500 * DLK_MS)

/* Its header does not find its includes. */
extern ZOOAPI ZooLogLevel logLevel;

static void drop_log(const char *message) {
  (void)message;
}

/* Once a process: others may use the library and choose. */
static void quiet_library(void) {
  if (logLevel >= ZOO_LOG_LEVEL_INFO)
    zoo_set_debug_level((ZooLogLevel)0);
}

/* ---- the session thread ---- */

static void no_completion(int rc, const void *data) {
  (void)rc;
  (void)data;
}

/* NULL: see errno; ENOENT, EINVAL: no host found. */
static zhandle_t *init_handle(struct dlk_zk_link *link, bool look_up) {
  char *hosts = dlk_zk_hosts_spelled(link->hosts, look_up);
  errno = ENOMEM;
  zhandle_t *zh =
      hosts ? zookeeper_init2(hosts, dlk_zk_on_watch, (int)link->timeout_ms,
                              NULL, link, ZOO_NO_LOG_CLIENTENV, drop_log)
            : NULL;
  int problem = errno;
  free(hosts);
  errno = problem;
  return zh;
}

static zhandle_t *open_handle(struct dlk_zk_link *link) {
  static pthread_once_t quiet = PTHREAD_ONCE_INIT;
  pthread_once(&quiet, quiet_library);
  zhandle_t *zh = NULL;
  int problem = dlk_native_room(LIBRARY_THREADS);
  if (problem == 0) {
    zh = init_handle(link, false);
    if (!zh && (errno == ENOENT || errno == EINVAL))
      zh = init_handle(link, true);
    problem = errno;
  }
  if (zh) {
    zoo_set_servers_resolution_delay(zh, -1);
    if (link->auth)
      zoo_add_auth(zh, "digest", link->auth, (int)strlen(link->auth),
                   no_completion, NULL);
  }
  pthread_mutex_lock(&link->lock);
  link->zh = zh;
  if (link->auth)
    explicit_bzero(link->auth, strlen(link->auth));
  if (!zh)
    link->open_error = problem ? problem : EINVAL;
  dlk_zk_link_kick(link);
  pthread_mutex_unlock(&link->lock);
  return zh;
}

/* [lock] */
static bool closes_within(struct dlk_zk_link *link, int64_t ns) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += ns;
  at.tv_sec += at.tv_nsec / DLK_SEC;
  at.tv_nsec %= DLK_SEC;
  while (!link->closing &&
         pthread_cond_timedwait(&link->wake, &link->lock, &at) == 0)
    continue;
  return link->closing;
}

/* [lock] */
static void look_for_trouble(struct dlk_zk_link *link) {
  pthread_mutex_unlock(&link->lock);
  int trouble = dlk_zk_hosts_trouble(link->hosts);
  pthread_mutex_lock(&link->lock);
  if (!trouble || link->seen)
    return;
  link->shut = trouble == DLK_ZK_SHUT;
  if (!link->shut)
    link->open_error = trouble;
  dlk_zk_link_kick(link);
}

static void *session_thread(void *arg) {
  struct dlk_zk_link *link = arg;
  zhandle_t *zh = open_handle(link);
  pthread_mutex_lock(&link->lock);
  if (zh && !closes_within(link, PATIENCE) && !link->seen)
    look_for_trouble(link);
  while (!link->closing)
    pthread_cond_wait(&link->wake, &link->lock);
  pthread_mutex_unlock(&link->lock);
  if (zh)
    zookeeper_close(zh);
  dlk_zk_completions_free(link);
  pthread_mutex_lock(&link->lock);
  link->through = true;
  dlk_zk_link_kick(link);
  pthread_mutex_unlock(&link->lock);
  dlk_zk_link_unref(link);
  return NULL;
}

/* ---- open and close ---- */

struct dlk_zk_link *dlk_zk_link_open(struct dlk_host *host,
                                     const struct dlk_zk_conf *conf,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner) {
  struct dlk_zk_link *link = calloc(1, sizeof *link);
  if (!link)
    return NULL;
  uint32_t lot;
  host->random(host, &lot, sizeof lot);
  link->hosts = dlk_zk_hosts_odd(conf->hosts, lot);
  link->auth = conf->auth ? strdup(conf->auth) : NULL;
  if (!link->hosts || (conf->auth && !link->auth) ||
      pthread_mutex_init(&link->lock, NULL) != 0) {
    free(link->hosts);
    free(link->auth);
    free(link);
    return NULL;
  }
  pthread_cond_init(&link->wake, NULL);
  atomic_init(&link->refs, 2);
  dlk_list_init(&link->flying);
  dlk_list_init(&link->ready);
  link->post.run = dlk_zk_link_run;
  link->closed = conf->closed;
  link->timeout_ms = dlk_to_ms(conf->timeout);
  link->host = host;
  link->events = events;
  link->user = user;
  link->owner = owner;
  if (dlk_native_start(NULL, STACK_SIZE, session_thread, link) == 0)
    return link;
  dlk_zk_link_unref(link);
  dlk_zk_link_unref(link);
  return NULL;
}

void dlk_zk_link_close(struct dlk_zk_link *link) {
  pthread_mutex_lock(&link->lock);
  link->muted = true;
  link->closing = true;
  pthread_cond_signal(&link->wake);
  pthread_mutex_unlock(&link->lock);
}

void dlk_zk_link_abandon(struct dlk_zk_link *link) {
  pthread_mutex_lock(&link->lock);
  link->host = NULL;
  bool now = !link->posted && !link->told_gone;
  if (now)
    link->told_gone = true;
  pthread_mutex_unlock(&link->lock);
  if (now) {
    link->events->gone(link->owner);
    dlk_zk_link_unref(link);
  }
}

/* ---- requests ---- */

static const struct ACL_vector *acl_of(const struct dlk_zk_link *link) {
  return link->closed ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

static int mode_of(enum dlk_zk_mode mode) {
  return mode == DLK_ZK_CONTAINER              ? ZOO_CONTAINER
         : mode == DLK_ZK_EPHEMERAL_SEQUENTIAL ? ZOO_EPHEMERAL_SEQUENTIAL
                                               : ZOO_PERSISTENT;
}

/* An upper bound, with rights and headers. */
static size_t length_of(const struct dlk_zk_request *r) {
  size_t length = 128 + r->len + (r->path ? strlen(r->path) : 0);
  for (size_t i = 0; i < r->part_count; i++)
    length += 128 + r->parts[i].len + strlen(r->parts[i].path);
  return length;
}

static int send_multi(struct dlk_zk_link *link, struct dlk_zk_completion *f,
                      const struct dlk_zk_request *r) {
  zoo_op_t ops[DLK_SS_PARTS_MAX];
  if (r->part_count > DLK_SS_PARTS_MAX)
    return ZBADARGUMENTS;
  for (size_t i = 0; i < r->part_count; i++) {
    const struct dlk_zk_request *p = &r->parts[i];
    if (p->verb == DLK_ZK_CREATE)
      zoo_create_op_init(&ops[i], p->path, p->data, (int)p->len, acl_of(link),
                         mode_of(p->mode), NULL, 0);
    else if (p->verb == DLK_ZK_SET)
      zoo_set_op_init(&ops[i], p->path, p->data, (int)p->len, p->version,
                      &f->part_stat[i]);
    else if (p->verb == DLK_ZK_DELETE)
      zoo_delete_op_init(&ops[i], p->path, p->version);
    else
      zoo_check_op_init(&ops[i], p->path, p->version);
  }
  f->part_count = r->part_count;
  return zoo_amulti(link->zh, (int)r->part_count, ops, f->part, dlk_zk_on_void,
                    f);
}

static int send_now(struct dlk_zk_link *link, struct dlk_zk_completion *f,
                    const struct dlk_zk_request *r) {
  zhandle_t *zh = link->zh;
  if (length_of(r) > DLK_ZK_REQUEST_MAX)
    return DLK_ZK_TOO_LONG;
  switch (r->verb) {
  case DLK_ZK_CREATE:
    return zoo_acreate2(zh, r->path, r->data, (int)r->len, acl_of(link),
                        mode_of(r->mode), dlk_zk_on_created, f);
  case DLK_ZK_DELETE:
    return zoo_adelete(zh, r->path, r->version, dlk_zk_on_void, f);
  case DLK_ZK_SET:
    return zoo_aset(zh, r->path, r->data, (int)r->len, r->version,
                    dlk_zk_on_stat, f);
  case DLK_ZK_GET:
    return zoo_aget(zh, r->path, r->watch, dlk_zk_on_data, f);
  case DLK_ZK_EXISTS_VERB:
    return zoo_aexists(zh, r->path, 0, dlk_zk_on_stat, f);
  case DLK_ZK_CHILDREN:
    return zoo_aget_children(zh, r->path, r->watch, dlk_zk_on_names, f);
  case DLK_ZK_SYNC:
    return zoo_async(zh, r->path, dlk_zk_on_string, f);
  case DLK_ZK_MULTI:
    return send_multi(link, f, r);
  case DLK_ZK_CHECK:
    break;
  }
  return ZBADARGUMENTS;
}

/* A refusal at once goes through the queue as well: no answer comes from inside
 * this call. */
bool dlk_zk_link_send(struct dlk_zk_link *link,
                      const struct dlk_zk_request *request,
                      dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct dlk_zk_completion *f = dlk_zk_completion_new(link, request);
  if (!f)
    return false;
  f->answer = answer;
  f->who = who;
  f->tag = tag;
  f->sent = link->host->now(link->host);
  int rc = link->zh ? send_now(link, f, request) : ZCONNECTIONLOSS;
  if (rc != ZOK)
    dlk_zk_completion_ready(f, rc);
  return true;
}
