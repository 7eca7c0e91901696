/* See zookeeper_link.h. */
#include "zookeeper_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 2500
#define REQUESTS 256
#define LINKS 8
#define TEXT 512

struct node {
  char path[TEXT], data[TEXT];
  size_t len;
  int64_t czxid, owner, ctime_ms, mtime_ms;
  int32_t version, sequence;
  bool watched, listed; /* watches on its data, on its children */
  enum dlk_zk_mode mode;
  bool late; /* not seen in a list before the next sync */
};

struct request {
  struct dlk_zk_link *link;
  struct dlk_zk_request r;
  struct dlk_zk_request part[DLK_SS_PARTS_MAX];
  char path[TEXT], data[TEXT], part_path[DLK_SS_PARTS_MAX][TEXT];
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  int64_t sent;
};

struct dlk_zk_link {
  struct dlk_host *host;
  const struct dlk_ss_events *events;
  void *user, *owner;
  int64_t id;
  struct dlk_post post;
  bool connected, closed;
};

static struct node nodes[NODES];
static size_t used; /* nodes behind it were never used */
static struct request queue[REQUESTS];
static struct dlk_zk_link *links[LINKS];
size_t fake_queued, fake_done[DLK_ZK_MULTI + 1];
static int64_t zxid, sessions;
int32_t fake_first;
static enum dlk_ss_rc refusal;
static enum dlk_zk_verb refused;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "zookeeper_link: %s\n", what);
  abort();
}

/* ---- the tree ---- */

static struct node *find(const char *path) {
  for (size_t i = 0; i < used; i++)
    if (nodes[i].czxid && strcmp(nodes[i].path, path) == 0)
      return &nodes[i];
  return NULL;
}

static struct node *parent_of(const char *path) {
  char up[TEXT];
  snprintf(up, sizeof up, "%s", path);
  *strrchr(up, '/') = '\0';
  return find(up);
}

static void tell(enum dlk_ss_event event, const char *path) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !links[i]->closed)
      links[i]->events->event(links[i]->user, event, path);
}

static void children_changed(const char *path) {
  struct node *up = parent_of(path);
  if (!up || !up->listed)
    return;
  up->listed = false;
  tell(DLK_SS_CHILD, up->path);
}

static struct node *make(const char *path, const char *data, size_t len) {
  for (size_t i = 0; i < NODES; i++) {
    struct node *n = &nodes[i];
    if (n->czxid)
      continue;
    used = i < used ? used : i + 1;
    memset(n, 0, sizeof *n);
    n->czxid = ++zxid;
    n->sequence = fake_first;
    snprintf(n->path, sizeof n->path, "%s", path);
    memcpy(n->data, data, len);
    n->len = len;
    return n;
  }
  die("too many nodes");
}

static bool is_below(const struct node *n, const char *lock) {
  size_t len = strlen(lock);
  return n->czxid && strncmp(n->path, lock, len) == 0 && n->path[len] == '/' &&
         !strchr(n->path + len + 1, '/');
}

/* Of the servers: nobody else's. */
static int64_t clock_ms(const struct dlk_zk_link *link) {
  return 5000000 + link->host->now(link->host) / DLK_MS;
}

static struct node *create(struct dlk_zk_link *link,
                           const struct dlk_zk_request *r) {
  char path[TEXT + 16];
  struct node *up = parent_of(r->path);
  if (!up && strrchr(r->path, '/') != r->path)
    return NULL;
  snprintf(path, sizeof path, "%s", r->path);
  if (r->mode == DLK_ZK_EPHEMERAL_SEQUENTIAL)
    snprintf(path, sizeof path, "%s%010d", r->path, up->sequence++);
  struct node *n = make(path, r->data, r->len);
  n->mode = r->mode;
  n->ctime_ms = n->mtime_ms = clock_ms(link);
  n->owner = r->mode == DLK_ZK_EPHEMERAL_SEQUENTIAL ? link->id : 0;
  children_changed(n->path);
  return n;
}

static void delete (struct node *n) {
  char path[TEXT];
  snprintf(path, sizeof path, "%s", n->path);
  n->czxid = 0;
  if (n->watched)
    tell(DLK_SS_DELETED, path);
  children_changed(path);
}

static enum dlk_ss_rc set(const struct dlk_zk_link *link, struct node *n,
                          const struct dlk_zk_request *r) {
  if (!n)
    return DLK_SS_NONODE;
  if (r->version != -1 && r->version != n->version)
    return DLK_SS_VERSION;
  memcpy(n->data, r->data, r->len);
  n->len = r->len;
  n->version++;
  n->mtime_ms = clock_ms(link);
  bool tells = n->watched;
  n->watched = false;
  if (tells)
    tell(DLK_SS_CHANGED, n->path);
  return DLK_SS_OK;
}

void fake_set_late(bool late) {
  for (size_t i = 0; i < used; i++)
    nodes[i].late = late;
}

/* ---- execution ---- */

static void describe(const struct node *n, struct dlk_ss_reply *out) {
  out->path = n->path;
  out->data = n->data;
  out->len = n->len;
  out->stat.fence = n->czxid;
  out->stat.owner = n->owner;
  out->stat.ctime_ms = n->ctime_ms;
  out->stat.mtime_ms = n->mtime_ms;
  out->stat.version = n->version;
}

static enum dlk_ss_rc multi(struct dlk_zk_link *link,
                            const struct dlk_zk_request *r,
                            struct dlk_ss_reply *out) {
  struct node *own = find(r->parts[0].path);
  out->part_rc[0] = own ? DLK_SS_OK : DLK_SS_NONODE;
  if (!own || r->part_count == 1)
    return out->part_rc[0];
  const struct dlk_zk_request *w = &r->parts[1];
  enum dlk_ss_rc rc = DLK_SS_OK;
  if (w->verb == DLK_ZK_CREATE)
    rc = find(w->path) ? DLK_SS_EXISTS : DLK_SS_OK;
  if (rc == DLK_SS_OK && w->verb == DLK_ZK_CREATE)
    create(link, w);
  else if (w->verb == DLK_ZK_SET)
    rc = set(link, find(w->path), w);
  return out->part_rc[1] = rc;
}

static enum dlk_ss_rc run(struct request *q, struct dlk_ss_reply *out,
                          char **names) {
  struct node *n = q->r.path ? find(q->r.path) : NULL;
  fake_done[q->r.verb]++;
  bool always = refusal == DLK_SS_UNKNOWN;
  if (always && q->r.mode == DLK_ZK_CONTAINER)
    return refusal;
  if (!always && refusal != DLK_SS_OK && refused == q->r.verb) {
    enum dlk_ss_rc rc = refusal;
    refusal = DLK_SS_OK;
    return rc;
  }
  if (q->r.verb == DLK_ZK_MULTI)
    return multi(q->link, &q->r, out);
  if (q->r.verb == DLK_ZK_CREATE) {
    if (n)
      return DLK_SS_EXISTS;
    n = create(q->link, &q->r);
    if (n)
      describe(n, out);
    return n ? DLK_SS_OK : DLK_SS_NONODE;
  }
  if (q->r.verb == DLK_ZK_SYNC) {
    fake_set_late(false);
    return DLK_SS_OK;
  }
  if (!n)
    return DLK_SS_NONODE;
  if (q->r.verb == DLK_ZK_DELETE) {
    bool empty = fake_nodes(q->r.path) == 0;
    if (empty)
      delete (n);
    return empty ? DLK_SS_OK : DLK_SS_FAILED;
  }
  enum dlk_ss_rc rc =
      q->r.verb == DLK_ZK_SET ? set(q->link, n, &q->r) : DLK_SS_OK;
  describe(n, out);
  n->watched |= q->r.verb == DLK_ZK_GET && q->r.watch;
  n->listed |= q->r.verb == DLK_ZK_CHILDREN && q->r.watch;
  for (size_t i = 0; q->r.verb == DLK_ZK_CHILDREN && i < used; i++)
    if (is_below(&nodes[i], q->r.path) && !nodes[i].late)
      names[out->count++] = strrchr(nodes[i].path, '/') + 1;
  return rc;
}

static struct request take(void) {
  struct request q = queue[0];
  memmove(queue, queue + 1, --fake_queued * sizeof queue[0]);
  return q;
}

static void execute(struct request *q, bool lose) {
  char *names[NODES];
  struct dlk_ss_reply reply = {
      .sent = q->sent, .text = "refused", .names = names};
  /* The copy has its strings elsewhere. */
  q->r.path = q->r.path ? q->path : NULL;
  q->r.data = q->data;
  q->r.parts = q->part;
  for (size_t i = 0; i < q->r.part_count; i++) {
    q->part[i].path = q->part_path[i];
    q->part[i].data = q->data;
  }
  if (q->link->closed)
    return;
  reply.rc = run(q, &reply, names);
  if (!lose)
    q->answer(q->who, q->tag, &reply);
}

bool fake_step(void) {
  if (fake_queued == 0)
    return false;
  struct request q = take();
  execute(&q, false);
  return true;
}

void fake_step_unheard(void) {
  struct request q = take();
  execute(&q, true);
}

void fake_serve_until(enum dlk_zk_verb verb) {
  while (fake_queued > 0 && queue[0].r.verb != verb)
    fake_step();
}

void fake_lose_all(bool executed_first) {
  static struct request lost[REQUESTS];
  const struct dlk_ss_reply cut = {.rc = DLK_SS_CUT, .text = "lost"};
  size_t count = 0;
  while (fake_queued > 0) {
    lost[count] = take();
    if (executed_first)
      execute(&lost[count], true);
    count++;
  }
  fake_away();
  for (size_t i = 0; i < count; i++)
    if (!lost[i].link->closed)
      lost[i].answer(lost[i].who, lost[i].tag, &cut);
}

void fake_end(bool connected, enum dlk_ss_end end) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !links[i]->closed && links[i]->connected == connected)
      links[i]->events->ended(links[i]->user, end, "ended");
}

static void delete_all_of(const struct dlk_zk_link *link) {
  for (size_t i = 0; i < used; i++)
    if (nodes[i].czxid && nodes[i].owner == link->id)
      delete (&nodes[i]);
}

void fake_expire(void) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !links[i]->closed && links[i]->connected)
      delete_all_of(links[i]);
  fake_end(true, DLK_SS_END_EXPIRED);
}

void fake_refuse(enum dlk_zk_verb verb, enum dlk_ss_rc rc) {
  refused = verb;
  refusal = rc;
}

const char *fake_data(const char *lock, size_t *len) {
  for (size_t i = 0; i < used; i++)
    if (is_below(&nodes[i], lock)) {
      *len = nodes[i].len;
      return nodes[i].data;
    }
  return NULL;
}

size_t fake_nodes(const char *lock) {
  size_t count = 0;
  for (size_t i = 0; i < used; i++)
    count += is_below(&nodes[i], lock);
  return count;
}

bool fake_has(int64_t czxid) {
  for (size_t i = 0; i < used; i++)
    if (nodes[i].czxid == czxid)
      return true;
  return false;
}

enum dlk_zk_mode fake_mode(const char *path) {
  return find(path)->mode;
}

size_t fake_links(void) {
  size_t count = 0;
  for (size_t i = 0; i < LINKS; i++)
    count += links[i] && !links[i]->closed;
  return count;
}

void fake_remove_one(const char *lock, bool last) {
  struct node *one = NULL;
  for (size_t i = 0; i < used; i++)
    if (is_below(&nodes[i], lock) &&
        (!one || (nodes[i].czxid > one->czxid) == last))
      one = &nodes[i];
  if (one)
    delete (one);
}

void fake_remove(const char *lock) {
  for (size_t i = 0; i < used; i++)
    if (is_below(&nodes[i], lock))
      delete (&nodes[i]);
  if (find(lock))
    delete (find(lock));
}

int64_t fake_disown(const char *lock) {
  size_t i = 0;
  while (!is_below(&nodes[i], lock))
    i++;
  nodes[i].owner = -1;
  return nodes[i].czxid;
}

void fake_join(const char *lock) {
  char path[TEXT];
  struct node *up = find(lock);
  snprintf(path, sizeof path, "%s/x-%032x-%016x-%010d", lock, 7u, 7u,
           up->sequence++);
  make(path, "owner=other\n", 12);
}

void fake_reset(void) {
  memset(nodes, 0, used * sizeof nodes[0]);
  used = 0;
  memset(links, 0, sizeof links);
  memset(fake_done, 0, sizeof fake_done);
  refusal = DLK_SS_OK;
  fake_queued = 0;
}

/* ---- the link ---- */

void fake_connected(int64_t timeout) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !links[i]->closed && !links[i]->connected) {
      links[i]->connected = true;
      links[i]->events->connected(links[i]->user, links[i]->id, timeout);
    }
}

void fake_away(void) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !links[i]->closed && links[i]->connected) {
      links[i]->connected = false;
      links[i]->events->away(links[i]->user, "lost");
    }
}

static void is_gone(struct dlk_post *post) {
  struct dlk_zk_link *link = DLK_CONTAINER(post, struct dlk_zk_link, post);
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] == link)
      links[i] = NULL;
  link->events->gone(link->owner);
  free(link);
}

struct dlk_zk_link *dlk_zk_link_open(struct dlk_host *host,
                                     const struct dlk_zk_conf *conf,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner) {
  size_t at = 0;
  (void)conf;
  while (at < LINKS && links[at])
    at++;
  struct dlk_zk_link *link = calloc(1, sizeof *link);
  if (at == LINKS || !link)
    die("too many links");
  link->host = host;
  link->events = events;
  link->user = user;
  link->owner = owner;
  link->id = ++sessions;
  link->post.run = is_gone;
  return links[at] = link;
}

bool dlk_zk_link_send(struct dlk_zk_link *link,
                      const struct dlk_zk_request *request,
                      dlk_ss_answer *answer, void *who, uint32_t tag) {
  if (fake_queued == REQUESTS)
    die("too many requests");
  struct request *q = &queue[fake_queued++];
  const char *data = request->data;
  size_t len = request->len;
  *q = (struct request){.link = link, .r = *request, .answer = answer};
  q->who = who;
  q->tag = tag;
  q->sent = link->host->now(link->host);
  snprintf(q->path, sizeof q->path, "%s", request->path ? request->path : "");
  for (size_t i = 0; i < request->part_count; i++) {
    q->part[i] = request->parts[i];
    snprintf(q->part_path[i], TEXT, "%s", request->parts[i].path);
    if (q->part[i].data) {
      data = q->part[i].data;
      len = q->part[i].len;
    }
  }
  if (len > sizeof q->data)
    die("too much data");
  if (len > 0)
    memcpy(q->data, data, len);
  return true;
}

/* A session's end takes its nodes along; what is under way is forgotten. */
void dlk_zk_link_close(struct dlk_zk_link *link) {
  size_t kept = 0;
  link->closed = true;
  for (size_t i = 0; i < fake_queued; i++)
    if (queue[i].link != link)
      queue[kept++] = queue[i];
  fake_queued = kept;
  delete_all_of(link);
  link->host->post(link->host, &link->post);
}

void dlk_zk_link_abandon(struct dlk_zk_link *link) {
  (void)link;
}
