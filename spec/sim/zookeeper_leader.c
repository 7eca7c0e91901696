#include "zookeeper_leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"
#include "store/zookeeper/client/link.h"

#define HALF_TICK (TIMEOUT / 4)
#define ITEMS 64
#define PATH 256

enum what {
  REQUEST, /* to the server */
  ANSWER,  /* to the client, as all up to EVENT */
  AWAY,
  CONNECTED,
  ENDED,
  EVENT,
  PING, /* to the follower, as all up to COMMIT */
  SHAKEN,
  COMMIT,
  TOUCH, /* to the leader */
  SHAKE,
  WRITE
};

struct item {
  enum what what;
  unsigned wire; /* of which connection */
  enum dlk_zk_verb verb;
  enum dlk_ss_rc rc;
  char path[PATH];
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  int64_t sent;
};

struct fifo {
  struct item at[ITEMS];
  size_t count;
};

struct dlk_zk_link {
  struct dlk_host *host;
  const struct dlk_ss_events *events;
  void *user, *owner;
  struct dlk_post post;
  bool closed, ended, told_end;
  struct fifo up, down;        /* client and server */
  struct fifo to_lead, to_fol; /* server and leader, when it is a follower */
  enum { NONE, SHAKING, ATTACHED } state;
  unsigned wire;
  bool follower, stale, cut_off; /* stale: a leader without a majority */
  bool touched, writing;
  struct item write;
  int64_t expires, czxid, ping_at;
  int64_t id;
  char node[PATH];
};

struct host *sim_host;
struct dlk_zk_link *sim_links[SIM_LINKS];
bool sim_sound;
static int64_t zxid;

static int64_t now(void) {
  return sim_host->host.now(&sim_host->host);
}

static void push(struct fifo *f, struct item i) {
  if (f->count == ITEMS)
    abort();
  f->at[f->count++] = i;
}

static struct item pop(struct fifo *f) {
  struct item i = f->at[0];
  memmove(f->at, f->at + 1, --f->count * sizeof f->at[0]);
  return i;
}

/* ---- the leader ---- */

static void remove_node(struct dlk_zk_link *l, const char *why) {
  struct item event = {.what = EVENT};
  sim_node_goes(l->czxid, why);
  memcpy(event.path, l->node, PATH);
  l->node[0] = '\0';
  for (size_t i = 0; event.path[0] && i < SIM_LINKS; i++)
    if (sim_links[i] && sim_links[i]->state == ATTACHED)
      push(&sim_links[i]->down, event);
}

static void touch(struct dlk_zk_link *l) {
  if (!l->stale && !l->ended)
    l->expires = now() + TIMEOUT;
}

static void expire(struct dlk_zk_link *l) {
  sim_say("session %p ends", (void *)l);
  l->ended = true;
  remove_node(l, "the session ended");
}

static void execute(struct dlk_zk_link *l, struct item *i) {
  bool here = l->node[0] && strcmp(l->node, i->path) == 0;
  i->rc = DLK_SS_OK;
  if (i->verb == DLK_ZK_CREATE && strchr(i->path + 1, '-')) {
    snprintf(l->node, PATH, "%.200s%010d", i->path, (int)++zxid);
    memcpy(i->path, l->node, PATH);
    l->czxid = zxid;
  } else if (i->verb == DLK_ZK_MULTI || i->verb == DLK_ZK_DELETE) {
    i->rc = here ? DLK_SS_OK : DLK_SS_NONODE;
    if (here && i->verb == DLK_ZK_DELETE)
      remove_node(l, "the node was deleted");
  }
}

/* ---- the server that the client is connected to ---- */

static bool is_write(const struct item *i) {
  return i->verb == DLK_ZK_CREATE || i->verb == DLK_ZK_MULTI ||
         i->verb == DLK_ZK_DELETE;
}

void sim_serve(struct dlk_zk_link *l) {
  if (l->state != ATTACHED || l->up.count == 0 || l->writing)
    return;
  struct item i = pop(&l->up);
  i.what = ANSWER;
  l->touched = true;
  if (!l->follower)
    touch(l);
  if (!is_write(&i)) {
    push(&l->down, i);
  } else if (l->follower || l->stale) {
    l->writing = true;
    l->write = i;
    if (!l->stale)
      push(&l->to_lead, (struct item){.what = WRITE, .wire = l->wire});
  } else if (!l->ended) {
    execute(l, &i);
    push(&l->down, i);
  }
}

void sim_lead(struct dlk_zk_link *l) {
  if (l->to_lead.count == 0 || l->cut_off)
    return;
  struct item i = pop(&l->to_lead);
  if (i.what != WRITE) {
    touch(l);
    if (i.what == SHAKE)
      push(&l->to_fol, (struct item){.what = SHAKEN, .wire = i.wire});
  } else if (l->wire == i.wire && l->writing && !l->ended) {
    execute(l, &l->write);
    push(&l->to_fol, (struct item){.what = COMMIT, .wire = i.wire});
  }
}

static void attached(struct dlk_zk_link *l) {
  sim_say("session %p attached, ended %d", (void *)l, l->ended);
  l->state = l->ended ? NONE : ATTACHED;
  l->told_end = l->ended;
  push(&l->down, (struct item){.what = l->ended ? ENDED : CONNECTED});
}

void sim_follow(struct dlk_zk_link *l) {
  if (l->to_fol.count == 0 || l->cut_off)
    return;
  struct item i = pop(&l->to_fol);
  if (i.what == PING && l->touched) {
    l->touched = false;
    push(&l->to_lead, (struct item){.what = TOUCH});
  } else if (i.what == SHAKEN && i.wire == l->wire && l->state == SHAKING) {
    attached(l);
  } else if (i.what == COMMIT && i.wire == l->wire && l->writing) {
    l->writing = false;
    push(&l->down, l->write);
  }
}

/* ---- the client library ---- */

void sim_lose(struct dlk_zk_link *l) {
  if (l->state == NONE)
    return;
  sim_say("session %p loses its connection", (void *)l);
  if (l->state == ATTACHED)
    push(&l->down, (struct item){.what = AWAY});
  if (l->writing)
    push(&l->up, l->write);
  while (l->up.count > 0) {
    struct item i = pop(&l->up);
    i.what = ANSWER;
    i.rc = DLK_SS_CUT;
    push(&l->down, i);
  }
  l->to_lead.count = l->to_fol.count = 0;
  l->state = NONE;
  l->writing = l->touched = l->cut_off = false;
  l->wire++;
}

void sim_attach(struct dlk_zk_link *l) {
  if (l->state != NONE || l->closed || l->told_end)
    return;
  l->stale = !sim_sound && l->expires && !l->ended && sim_roll(6) == 0;
  l->follower = !l->stale && sim_roll(3) > 0;
  l->state = SHAKING;
  sim_say("session %p attaches: follower %d, stale %d", (void *)l, l->follower,
          l->stale);
  if (l->follower) {
    push(&l->to_lead, (struct item){.what = SHAKE, .wire = l->wire});
    return;
  }
  touch(l);
  attached(l);
}

static int64_t ids; /* the last session's */

static void tell(struct dlk_zk_link *l, struct item *i) {
  const char *slash = strrchr(i->path, '/');
  struct dlk_ss_reply r = {.rc = i->rc, .sent = i->sent, .text = "cut"};
  char *names[SIM_LINKS];
  r.path = i->path;
  r.data = "";
  r.stat.fence = l->czxid;
  r.stat.owner = l->id;
  r.names = names;
  for (size_t k = 0; i->verb == DLK_ZK_CHILDREN && k < SIM_LINKS; k++)
    if (sim_links[k] && sim_links[k]->node[0])
      names[r.count++] = strrchr(sim_links[k]->node, '/') + 1;
  if (i->verb == DLK_ZK_GET && i->rc == DLK_SS_OK && slash) {
    r.rc = DLK_SS_NONODE;
    for (size_t k = 0; k < SIM_LINKS; k++)
      if (sim_links[k] && strcmp(sim_links[k]->node, i->path) == 0) {
        r.rc = DLK_SS_OK;
        r.stat.owner = sim_links[k]->id;
      }
  }
  i->answer(i->who, i->tag, &r);
}

void sim_hear(struct dlk_zk_link *l) {
  if (l->down.count == 0 || l->closed)
    return;
  struct item i = pop(&l->down);
  if (i.what == ANSWER)
    tell(l, &i);
  else if (i.what == AWAY)
    l->events->away(l->user, "the connection was lost");
  else if (i.what == CONNECTED)
    l->events->connected(l->user, l->id, TIMEOUT);
  else if (i.what == ENDED)
    l->events->ended(l->user, DLK_SS_END_EXPIRED, "expired");
  else
    l->events->event(l->user, DLK_SS_DELETED, i.path);
}

void sim_deafen(struct dlk_zk_link *l) {
  if (l->closed)
    return;
  sim_say("session %p cannot be heard any more", (void *)l);
  l->events->ended(l->user, DLK_SS_END_FAILED, "out of memory");
}

static void is_gone(struct dlk_post *post) {
  struct dlk_zk_link *l = DLK_CONTAINER(post, struct dlk_zk_link, post);
  for (size_t i = 0; i < SIM_LINKS; i++)
    if (sim_links[i] == l)
      sim_links[i] = NULL;
  l->events->gone(l->owner);
  free(l);
}

struct dlk_zk_link *dlk_zk_link_open(struct dlk_host *host,
                                     const struct dlk_zk_conf *conf,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner) {
  size_t at = 0;
  struct dlk_zk_link *l = calloc(1, sizeof *l);
  (void)conf;
  while (at < SIM_LINKS && sim_links[at])
    at++;
  if (at == SIM_LINKS || !l)
    abort();
  l->host = host;
  l->events = events;
  l->user = user;
  l->owner = owner;
  l->id = ++ids;
  l->post.run = is_gone;
  l->ping_at = now() + sim_roll(100) * HALF_TICK / 100;
  return sim_links[at] = l;
}

bool dlk_zk_link_send(struct dlk_zk_link *l, const struct dlk_zk_request *r,
                      dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct item i = {.verb = r->verb, .answer = answer, .who = who, .tag = tag};
  snprintf(i.path, PATH, "%s", r->parts ? r->parts[0].path : r->path);
  i.sent = now();
  push(&l->up, i);
  return true;
}

void dlk_zk_link_close(struct dlk_zk_link *l) {
  l->closed = l->ended = true;
  remove_node(l, "the session was closed");
  l->host->post(l->host, &l->post);
}

void dlk_zk_link_abandon(struct dlk_zk_link *l) {
  (void)l;
}

/* ---- time ---- */

static void due(struct dlk_zk_link *l) {
  if (now() >= l->ping_at) {
    l->ping_at = now() + HALF_TICK + sim_roll(100) * TIMEOUT / 12800;
    if (l->follower && l->state != NONE)
      push(&l->to_fol, (struct item){.what = PING});
  }
  if (l->expires && !l->ended && now() >= l->expires)
    expire(l);
}

void sim_pass(int64_t ns) {
  for (int64_t until = now() + ns; now() < until;) {
    int64_t next = until;
    for (size_t i = 0; i < SIM_LINKS; i++) {
      struct dlk_zk_link *l = sim_links[i];
      if (!l || l->closed)
        continue;
      next = l->ping_at < next ? l->ping_at : next;
      if (l->expires && !l->ended && l->expires < next)
        next = l->expires;
    }
    sim_host->skew += next > now() ? next - now() : 0;
    for (size_t i = 0; i < SIM_LINKS; i++)
      if (sim_links[i] && !sim_links[i]->closed)
        due(sim_links[i]);
  }
}

void sim_mend(void) {
  for (size_t i = 0; i < SIM_LINKS; i++) {
    struct dlk_zk_link *l = sim_links[i];
    if (l && (l->stale || l->cut_off || l->ended))
      sim_lose(l);
  }
}

void sim_settle(void) {
  for (int k = 0; k < 40; k++)
    for (size_t i = 0; i < SIM_LINKS; i++) {
      void (*const all[])(struct dlk_zk_link *) = {
          sim_attach, sim_serve, sim_lead, sim_follow, sim_hear};
      for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        if (sim_links[i])
          all[n](sim_links[i]);
    }
  host_turn(sim_host, 0);
}

void sim_isolate(void) {
  for (size_t i = 0; i < SIM_LINKS; i++) {
    struct dlk_zk_link *l = sim_links[i];
    if (l && l->state == ATTACHED)
      *(l->follower ? &l->cut_off : &l->stale) = true;
  }
}
