/* The Consul store's watches against answers that come late, in whatever order
 * the servers and the network choose. spec/consul/units_spec.lua compiles and
 * runs it. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "fake_servers.h"
#include "plain.h"
#include "store/session/consul/link.h"

#define SEEDS 500
#define TIMERS 16
#define POSTS 4
#define NAME(guid, client)                                                     \
  "/dlock/k/x-" guid guid guid guid "-" client client "-"

static struct {
  bool done, gone_is_there;
  enum dlk_ss_rc rc;
  char path[200];
} got;
static struct {
  struct dlk_timer *timer;
  int64_t at;
} timers[TIMERS];
static struct dlk_post *posts[POSTS];
static size_t post_count;
static int64_t clock_now;
static struct dlk_consul_client client;
static char base[] = "/dlock";

static int64_t host_now(struct dlk_host *host) {
  (void)host;
  return clock_now;
}

static void host_random(struct dlk_host *host, void *out, size_t n) {
  (void)host;
  memset(out, 1, n);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *t) {
  (void)host;
  for (size_t i = 0; i < TIMERS; i++)
    if (timers[i].timer == t)
      timers[i].timer = NULL;
}

static void timer_set(struct dlk_host *host, struct dlk_timer *t, int64_t at) {
  size_t i = 0;
  timer_clear(host, t);
  while (timers[i].timer)
    i++;
  timers[i].timer = t;
  timers[i].at = at;
}

static void host_busy(struct dlk_host *host, int delta) {
  (void)host, (void)delta;
}

static void host_watch(struct dlk_host *host, int fd) {
  (void)host, (void)fd;
}

static void host_post(struct dlk_host *host, struct dlk_post *p) {
  (void)host;
  posts[post_count++] = p;
}

static struct dlk_host host = {.now = host_now,
                               .random = host_random,
                               .timer_set = timer_set,
                               .timer_clear = timer_clear,
                               .busy = host_busy,
                               .watch = host_watch,
                               .post = host_post};

static bool step(void) {
  for (size_t i = 0; i < TIMERS; i++) {
    struct dlk_timer *t = timers[i].timer;
    if (t && timers[i].at <= clock_now) {
      timers[i].timer = NULL;
      t->fire(t, clock_now);
      return true;
    }
  }
  return fake_step();
}

static void settle(void) {
  while (step())
    continue;
}

static void pass(int64_t ns) {
  clock_now += ns;
  settle();
}

static void connected(void *user, int64_t session, int64_t timeout) {
  (void)user, (void)session, (void)timeout;
}

static void away(void *user, const char *why) {
  (void)user, (void)why;
}

static void gone(void *user) {
  (void)user;
}

static void event(void *user, enum dlk_ss_event what, const char *path) {
  (void)user;
  if (what == DLK_SS_DELETED)
    got.gone_is_there |= fake_has(strtoll(strrchr(path, '-') + 1, NULL, 10));
}

static const struct dlk_ss_events events = {
    .connected = connected, .away = away, .event = event, .gone = gone};

static void answered(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)who, (void)tag;
  got.done = true;
  got.rc = r->rc;
  snprintf(got.path, sizeof got.path, "%s", r->path ? r->path : "");
}

static struct dlk_ss_link *open_link(void) {
  struct dlk_ss_link *l =
      dlk_consul_driver.open(&host, &client, 10 * DLK_SEC, &events, NULL, NULL);
  settle();
  return l;
}

static void begin(uint64_t seed) {
  sim_seed(seed);
  fake_reset();
  fake_connected(0);
  got.gone_is_there = false;
  clock_now = 100 * DLK_SEC;
  client =
      (struct dlk_consul_client){.conf = {.scheme = "consul"}, .base = base};
  dlk_list_init(&client.links);
}

static void end(void) {
  while (!dlk_list_empty(&client.links))
    dlk_consul_driver.close(
        DLK_CONTAINER(client.links.next, struct dlk_ss_link, in_client));
  settle();
  while (post_count > 0) {
    struct dlk_post *p = posts[--post_count];
    p->run(p);
  }
  dlk_ss_free_texts(client.texts);
}

/* Done when it is answered; what else is under way may take longer. */
static void ask(struct dlk_ss_link *l, enum dlk_ss_verb verb, const char *path,
                bool watch) {
  char copy[200]; /* of got.path, say */
  snprintf(copy, sizeof copy, "%s", path);
  const struct dlk_ss_request r = {
      .verb = verb, .path = copy, .data = "1", .len = 1, .watch = watch};
  got.done = false;
  clock_now += DLK_MS;
  CHECK(dlk_consul_driver.send(l, &r, answered, NULL, 0));
  while (!got.done && step())
    continue;
  CHECK(got.done && got.rc == DLK_SS_OK);
}

static void create(struct dlk_ss_link *l, const char *name, char path[200]) {
  ask(l, DLK_SS_CREATE, name, false);
  memcpy(path, got.path, sizeof got.path);
}

TEST(an_answer_of_before_a_read_tells_nothing) {
  char a[200], b[200];
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    begin(seed);
    struct dlk_ss_link *own = open_link(), *other = open_link();
    create(other, NAME("aaaaaaaa", "11111111"), a);
    ask(own, DLK_SS_READ, a, true);
    ask(own, DLK_SS_LIST, "/dlock/k", true);
    settle();
    ask(other, DLK_SS_DELETE, a, false);
    create(other, NAME("bbbbbbbb", "11111111"), b);
    ask(own, DLK_SS_READ, b, true);
    settle();
    CHECK(!got.gone_is_there);
    end();
  }
}

/* The query for a dead one's key goes on while a list buries that. */
TEST(a_query_tells_of_its_own_key) {
  char a[200], b[200], c[200];
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    begin(seed);
    struct dlk_ss_link *own = open_link(), *dies = open_link(),
                       *other = open_link();
    create(dies, NAME("aaaaaaaa", "11111111"), a);
    create(other, NAME("bbbbbbbb", "22222222"), b);
    create(own, NAME("cccccccc", "33333333"), c);
    for (int i = 0; i < 4; i++) {
      pass(7 * DLK_SEC);
      ask(own, DLK_SS_PROVE, c, false);
      ask(other, DLK_SS_PROVE, b, false);
    }
    ask(own, DLK_SS_READ, a, true);
    settle();
    pass(DLK_SEC);
    ask(own, DLK_SS_LIST, "/dlock/k", false);
    ask(own, DLK_SS_READ, b, true);
    settle();
    CHECK(fake_nodes("/dlock/k") == 2 && !got.gone_is_there);
    end();
  }
}

int main(void) {
  return check_all();
}
