/* The etcd store's detached keys against requests of a lost connection that are
 * done late (a member stood still, and goes on), and a write that passes the
 * quota. spec/etcd/units_spec.lua compiles and runs it. */
#include "check.h"

#include <string.h>

#include "fake_servers.h"
#include "store/session/etcd/link.h"

static struct {
  enum dlk_ss_rc rc;
  int64_t fence, version;
  char path[100];
} got;
static struct dlk_post *post;
static struct dlk_etcd_client client;
static char base[] = "/dlock";

static int64_t host_now(struct dlk_host *host) {
  (void)host;
  return 100 * DLK_SEC;
}

static void host_random(struct dlk_host *host, void *out, size_t n) {
  unsigned char *at = out;
  (void)host;
  while (n-- > 0)
    *at++ = (unsigned char)check_random(256);
}

static void timer_set(struct dlk_host *host, struct dlk_timer *t, int64_t at) {
  (void)host, (void)t, (void)at;
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *t) {
  (void)host, (void)t;
}

static void host_busy(struct dlk_host *host, int delta) {
  (void)host, (void)delta;
}

static void host_watch(struct dlk_host *host, int fd) {
  (void)host, (void)fd;
}

static void host_post(struct dlk_host *host, struct dlk_post *p) {
  (void)host;
  post = p;
}

static struct dlk_host host = {.now = host_now,
                               .random = host_random,
                               .timer_set = timer_set,
                               .timer_clear = timer_clear,
                               .busy = host_busy,
                               .watch = host_watch,
                               .post = host_post};

static void connected(void *user, int64_t session, int64_t timeout) {
  (void)user, (void)session, (void)timeout;
}

static void away(void *user, const char *why) {
  (void)user, (void)why;
}

static void gone(void *user) {
  (void)user;
}

static const struct dlk_ss_events events = {
    .connected = connected, .away = away, .gone = gone};

static void answered(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)who, (void)tag;
  got.rc = r->rc;
  got.fence = r->stat.fence;
  got.version = r->stat.version;
  snprintf(got.path, sizeof got.path, "%s", r->path ? r->path : "");
}

static struct dlk_ss_link *open_link(void) {
  fake_reset();
  fake_late(false);
  client = (struct dlk_etcd_client){
      .conf = {.host_count = 1, .shown = "etcd://here"}, .base = base};
  dlk_list_init(&client.links);
  struct dlk_ss_link *l =
      dlk_etcd_driver.open(&host, &client, 10 * DLK_SEC, &events, NULL, NULL);
  fake_connected(0);
  fake_serve();
  return l;
}

static void end_link(struct dlk_ss_link *l) {
  dlk_etcd_driver.close(l);
  fake_serve();
  post->run(post);
  dlk_ss_free_texts(client.texts);
}

static void begin(struct dlk_ss_link *l, enum dlk_ss_verb verb,
                  const char *path, int64_t version, int64_t ms) {
  struct dlk_ss_request r = {.verb = verb,
                             .path = path,
                             .data = "1",
                             .len = 1,
                             .version = version,
                             .ms = ms};
  got.rc = DLK_SS_UNKNOWN;
  CHECK(dlk_etcd_driver.send(l, &r, answered, NULL, 0));
}

static void ask(struct dlk_ss_link *l, enum dlk_ss_verb verb, const char *path,
                int64_t version, int64_t ms) {
  begin(l, verb, path, version, ms);
  fake_serve();
  CHECK(got.rc == DLK_SS_OK);
}

/* It is under way behind its lease's grant when the connection is lost. */
static void lose(struct dlk_ss_link *l, enum dlk_ss_verb verb, const char *path,
                 int64_t version) {
  fake_late(true);
  begin(l, verb, path, version, 5000);
  CHECK(fake_step());
  fake_drop();
  CHECK(got.rc == DLK_SS_CUT);
  fake_connected(0);
  fake_serve();
}

TEST(a_detach_is_not_done_behind_its_session) {
  struct dlk_ss_link *l = open_link();
  char path[100];
  ask(l, DLK_SS_CREATE, "/dlock/k/x-a-b-", 0, 0);
  int64_t created = got.fence;
  memcpy(path, got.path, sizeof path);
  lose(l, DLK_SS_DETACH, path, 0);
  ask(l, DLK_SS_DETACH, path, 0, 60000);
  int64_t lease = fake_lease(created);
  end_link(l);
  fake_late(false);
  fake_serve();
  CHECK(lease != 0 && fake_lease(created) == lease);
}

TEST(a_prolonging_is_not_done_behind_another_one) {
  struct dlk_ss_link *l = open_link();
  char path[100];
  ask(l, DLK_SS_CREATE, "/dlock/k/x-a-b-", 0, 0);
  int64_t created = got.fence;
  memcpy(path, got.path, sizeof path);
  ask(l, DLK_SS_DETACH, path, 0, 60000);
  int64_t mark = got.version;
  ask(l, DLK_SS_DETACHED, path, mark, 0);
  lose(l, DLK_SS_PROLONG, path, got.version);
  ask(l, DLK_SS_DETACHED, path, mark, 0);
  ask(l, DLK_SS_PROLONG, path, got.version, 90000);
  int64_t lease = fake_lease(created);
  fake_late(false);
  fake_serve();
  CHECK(lease != 0 && fake_lease(created) == lease);
  end_link(l);
}

/* A revoke may have marked it in between. */
TEST(an_attach_writes_over_nothing_that_it_did_not_see) {
  struct dlk_ss_link *l = open_link();
  char path[100];
  ask(l, DLK_SS_CREATE, "/dlock/k/x-a-b-", 0, 0);
  int64_t created = got.fence;
  memcpy(path, got.path, sizeof path);
  ask(l, DLK_SS_DETACH, path, 0, 60000);
  int64_t mark = got.version, own = fake_lease(created);
  ask(l, DLK_SS_READ, path, 0, 0);
  struct dlk_ss_request r = {.verb = DLK_SS_ATTACH,
                             .path = path,
                             .data = "2",
                             .len = 1,
                             .version = mark,
                             .seen = got.version - 1};
  CHECK(dlk_etcd_driver.send(l, &r, answered, NULL, 0));
  fake_serve();
  CHECK(got.rc == DLK_SS_VERSION && fake_lease(created) == own);
  ask(l, DLK_SS_READ, path, 0, 0);
  r.seen = got.version;
  CHECK(dlk_etcd_driver.send(l, &r, answered, NULL, 0));
  fake_serve();
  CHECK(got.rc == DLK_SS_OK && fake_lease(created) == l->lease);
  CHECK(dlk_etcd_driver.send(l, &r, answered, NULL, 0));
  fake_serve();
  CHECK(got.rc == DLK_SS_VERSION);
  end_link(l);
}

TEST(a_create_that_was_done_and_refused_goes) {
  struct dlk_ss_link *l = open_link();
  fake_full(true);
  begin(l, DLK_SS_CREATE, "/dlock/k/x-a-b-", 0, 0);
  CHECK(fake_step());
  CHECK(got.rc == DLK_SS_FAILED && fake_nodes("/dlock/k") == 1);
  fake_serve();
  fake_full(false);
  CHECK(fake_nodes("/dlock/k") == 0);
  end_link(l);
}

int main(void) {
  return check_all();
}
