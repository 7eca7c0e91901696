/* The way of answers from the client library's threads to the loop
 * (client/completions.c): which of them wake whoever runs the loop; and the
 * servers that the library is told of (client/handle.c). It is linked and not
 * called: with --wrap, a handle of it cannot be had.
 * spec/zookeeper/units_spec.lua runs this. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "store/zookeeper/client/completions.h"

static int wakeups;
static char answered[8]; /* who, in order */
static struct dlk_zk_link link_;

static void wake(struct dlk_host *host, struct dlk_post *post) {
  (void)host;
  (void)post;
  wakeups++;
}

static struct dlk_host host = {.post = wake};

static void start(void) {
  memset(&link_, 0, sizeof link_);
  memset(answered, 0, sizeof answered);
  wakeups = 0;
  pthread_mutex_init(&link_.lock, NULL);
  dlk_list_init(&link_.flying);
  dlk_list_init(&link_.ready);
  link_.host = &host;
  link_.zh = (zhandle_t *)&host; /* only whether there is one matters */
}

static void on_answer(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)r;
  (void)tag;
  strcat(answered, who);
}

static struct dlk_zk_completion *sent(char *who, bool leads) {
  const struct dlk_zk_request r = {.path = "/k", .leads = leads};
  struct dlk_zk_completion *f = dlk_zk_completion_new(&link_, &r);
  CHECK(f);
  f->answer = on_answer;
  f->who = who;
  return f;
}

TEST(one_that_leads_another_wakes_nobody) {
  start();
  struct dlk_zk_completion *first = sent("1", true), *second = sent("2", false);
  dlk_zk_completion_ready(first, ZOK);
  CHECK(wakeups == 0);
  dlk_zk_completion_ready(second, ZOK);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "12") == 0);
}

TEST(each_other_one_wakes) {
  start();
  struct dlk_zk_completion *first = sent("1", false);
  struct dlk_zk_completion *second = sent("2", false);
  dlk_zk_completion_ready(first, ZOK);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  dlk_zk_completion_ready(second, ZOK);
  CHECK(wakeups == 2);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "12") == 0);
}

/* There was no memory for the other one; or it has not been sent yet. */
TEST(one_that_leads_nobody_wakes) {
  start();
  dlk_zk_completion_ready(sent("1", true), ZCONNECTIONLOSS);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "1") == 0);
}

/* Before the leader is answered, or after that. */
TEST(one_that_leads_a_refused_one_is_answered) {
  start();
  struct dlk_zk_completion *first = sent("1", true), *second = sent("2", false);
  dlk_zk_completion_ready(second, ZINVALIDSTATE);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  dlk_zk_completion_ready(first, ZOK);
  CHECK(wakeups == 2);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "21") == 0);
  start();
  first = sent("1", true);
  second = sent("2", false);
  dlk_zk_completion_ready(first, ZOK);
  dlk_zk_completion_ready(second, ZINVALIDSTATE);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "12") == 0);
}

/* ---- the servers ---- */

static uint32_t drawn;
static char told[100]; /* what the library got */
static atomic_bool has_told;

zhandle_t *__wrap_zookeeper_init2(const char *hosts, watcher_fn fn, int timeout,
                                  const clientid_t *id, void *context,
                                  int flags, log_callback_fn log);

zhandle_t *__wrap_zookeeper_init2(const char *hosts, watcher_fn fn, int timeout,
                                  const clientid_t *id, void *context,
                                  int flags, log_callback_fn log) {
  (void)fn, (void)timeout, (void)id, (void)context, (void)flags, (void)log;
  snprintf(told, sizeof told, "%s", hosts);
  atomic_store(&has_told, true);
  return NULL;
}

static void draw(struct dlk_host *h, void *p, size_t n) {
  (void)h;
  CHECK(n == sizeof drawn);
  memcpy(p, &drawn, n);
}

static bool is_through;

static void gone(void *owner) {
  (void)owner;
  is_through = true;
}

/* Whether it gets that list when this number is drawn. */
static bool gets(const char *hosts, uint32_t number, const char *list) {
  static const struct dlk_ss_events events = {.gone = gone};
  static struct dlk_host drawing = {.post = wake, .random = draw};
  const struct dlk_zk_conf conf = {.hosts = hosts, .timeout = DLK_SEC};
  drawn = number;
  atomic_store(&has_told, false);
  is_through = false;
  struct dlk_zk_link *link =
      dlk_zk_link_open(&drawing, &conf, &events, NULL, NULL);
  CHECK(link);
  while (!atomic_load(&has_told))
    usleep(1000);
  dlk_zk_link_close(link);
  while (!is_through) {
    dlk_zk_link_run(&link->post);
    usleep(1000);
  }
  return strcmp(told, list) == 0;
}

TEST(of_an_even_number_one_by_lot_is_there_twice) {
  CHECK(gets("a:1", 5, "a:1"));
  CHECK(gets("a:1,b:2,c:3", 5, "a:1,b:2,c:3"));
  CHECK(gets("a:1,b:2", 0, "a:1,b:2,a:1"));
  CHECK(gets("a:1,b:2", 3, "a:1,b:2,b:2"));
  CHECK(gets("a:1,b:2,c:3,d:4", 6, "a:1,b:2,c:3,d:4,c:3"));
}

int main(void) {
  return check_all();
}
