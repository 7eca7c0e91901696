/* The way of answers from the client library's threads to the loop
 * (client/completions.c): which of them wake whoever runs the loop. The library
 * is linked and not called; spec/zookeeper/units_spec.lua runs it. */
#include <string.h>

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

static void on_answer(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
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

static void one_that_leads_another_wakes_nobody(void) {
  start();
  struct dlk_zk_completion *first = sent("1", true), *second = sent("2", false);
  dlk_zk_completion_ready(first, ZOK);
  CHECK(wakeups == 0);
  dlk_zk_completion_ready(second, ZOK);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "12") == 0);
}

static void each_other_one_wakes(void) {
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
static void one_that_leads_nobody_wakes(void) {
  start();
  dlk_zk_completion_ready(sent("1", true), ZCONNECTIONLOSS);
  CHECK(wakeups == 1);
  dlk_zk_link_run(&link_.post);
  CHECK(strcmp(answered, "1") == 0);
}

/* Before the leader is answered, or after that. */
static void one_that_leads_a_refused_one_is_answered(void) {
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

static const struct check tests[] = {
    {"one_that_leads_another_wakes_nobody",
     one_that_leads_another_wakes_nobody},
    {"each_other_one_wakes", each_other_one_wakes},
    {"one_that_leads_nobody_wakes", one_that_leads_nobody_wakes},
    {"one_that_leads_a_refused_one_is_answered",
     one_that_leads_a_refused_one_is_answered}};

int main(void) {
  return check_all(tests, sizeof tests / sizeof *tests);
}
