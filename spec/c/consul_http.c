/* What conn/http.c makes of libcurl, which is made up here. A handle whose
 * request went wrong serves no other: that of libcurl 8.7 to 8.14, and later,
 * fails again once it could not send a body anew.
 * spec/consul/units_spec.lua compiles and runs it. */
#include "check.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <uv.h>

#include "core/clock.h"
#include "store/session/consul/conn/http.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct easy {
  void *call;
  const struct curl_slist *headers;
  bool spoiled, rewinds, reads;
};

static struct dlk_timer *timer;
static uv_loop_t loop;
static CURLMsg ended;
static bool has_ended;
static struct easy *given;
static size_t alive, told;

/* ---- libcurl ---- */

CURLcode curl_global_init(long flags) {
  (void)flags;
  return CURLE_OK;
}

CURL *curl_easy_init(void) {
  alive++;
  return calloc(1, sizeof(struct easy));
}

void curl_easy_cleanup(CURL *e) {
  alive -= e != NULL;
  free(e);
}

CURLcode curl_easy_setopt(CURL *e, CURLoption option, ...) {
  struct easy *to = (struct easy *)e;
  va_list args;
  va_start(args, option);
  if (option == CURLOPT_PRIVATE)
    to->call = va_arg(args, void *);
  if (option == CURLOPT_HTTPHEADER)
    to->headers = va_arg(args, struct curl_slist *);
  va_end(args);
  to->rewinds |= option == CURLOPT_SEEKFUNCTION ||
                 option == CURLOPT_POSTFIELDS ||
                 option == CURLOPT_COPYPOSTFIELDS || option == CURLOPT_MIMEPOST;
  to->reads |= option == CURLOPT_READFUNCTION;
  return CURLE_OK;
}

CURLcode curl_easy_getinfo(CURL *e, CURLINFO info, ...) {
  va_list args;
  va_start(args, info);
  if (info == CURLINFO_PRIVATE)
    *va_arg(args, void **) = ((struct easy *)e)->call;
  else
    *va_arg(args, long *) = info == CURLINFO_RESPONSE_CODE  ? 200
                            : info == CURLINFO_REQUEST_SIZE ? 100
                                                            : 0;
  va_end(args);
  return CURLE_OK;
}

const char *curl_easy_strerror(CURLcode code) {
  return code == CURLE_OK ? "" : "libcurl's words";
}

CURLM *curl_multi_init(void) {
  return calloc(1, 1);
}

CURLMcode curl_multi_cleanup(CURLM *m) {
  free(m);
  return CURLM_OK;
}

CURLMcode curl_multi_setopt(CURLM *m, CURLMoption option, ...) {
  (void)m, (void)option;
  return CURLM_OK;
}

CURLMcode curl_multi_add_handle(CURLM *m, CURL *e) {
  (void)m;
  given = (struct easy *)e;
  return CURLM_OK;
}

CURLMcode curl_multi_remove_handle(CURLM *m, CURL *e) {
  (void)m, (void)e;
  return CURLM_OK;
}

CURLMcode curl_multi_socket_action(CURLM *m, curl_socket_t fd, int what,
                                   int *running) {
  (void)m, (void)fd, (void)what;
  *running = 0;
  return CURLM_OK;
}

CURLMsg *curl_multi_info_read(CURLM *m, int *left) {
  bool has = has_ended;
  (void)m;
  has_ended = false;
  *left = 0;
  return has ? &ended : NULL;
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *s) {
  struct curl_slist *one = calloc(1, sizeof *one), *last = list;
  one->data = strdup(s);
  while (last && last->next)
    last = last->next;
  if (last)
    last->next = one;
  return list ? list : one;
}

void curl_slist_free_all(struct curl_slist *list) {
  while (list) {
    struct curl_slist *next = list->next;
    free(list->data);
    free(list);
    list = next;
  }
}

time_t curl_getdate(const char *text, const time_t *unused) {
  (void)text, (void)unused;
  return 0;
}

/* ---- the host ---- */

static int64_t host_now(struct dlk_host *host) {
  (void)host;
  return DLK_SEC;
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *t) {
  (void)host, (void)t;
}

static struct uv_loop_s *host_loop(struct dlk_host *host) {
  (void)host;
  return &loop;
}

static struct dlk_host host = {
    .now = host_now, .timer_clear = timer_clear, .loop = host_loop};
static struct dlk_addr agent = {.host = (char *)(uintptr_t) "127.0.0.1"};
static const struct dlk_conf conf = {
    .scheme = "consul", .hosts = &agent, .host_count = 1};
static struct dlk_http http;

static void on_told(struct dlk_http_call *c) {
  (void)c;
  told++;
}

static void on_gone(void *arg) {
  (void)arg;
}

static void begin(void) {
  http = (struct dlk_http){.host = &host, .conf = &conf};
  told = 0;
  CHECK(uv_loop_init(&loop) == 0);
  CHECK(dlk_http_open(&http, on_gone, NULL));
  CHECK(dlk_http_token(&http, NULL));
}

static void end(struct dlk_http_call *c) {
  dlk_http_drop(c);
  dlk_http_close(&http);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  CHECK(uv_loop_close(&loop) == 0);
  CHECK(alive == 0);
}

static void ask(struct dlk_http_call *c) {
  c->told = on_told;
  CHECK(dlk_http_start(&http, c, "/v1/txn", "[]", 2, DLK_SEC));
  CHECK(!given->spoiled);
}

static void answer(CURLcode code) {
  struct easy *e = given;
  e->spoiled = code != CURLE_OK;
  ended = (CURLMsg){.easy_handle = (CURL *)e, .data.result = code};
  has_ended = true;
  timer = &http.pools[DLK_HTTP_SHORT].timer;
  timer->fire(timer, 0);
}

TEST(a_handle_serves_again_behind_an_answer_alone) {
  static const CURLcode wrong[] = {CURLE_SEND_FAIL_REWIND, CURLE_RECV_ERROR,
                                   CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING};
  struct dlk_http_call c = {.told = NULL};
  begin();
  ask(&c);
  struct easy *first = given;
  answer(CURLE_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    ask(&c);
    CHECK(i > 0 || given == first);
    answer(wrong[i]);
    CHECK(c.status == 0);
  }
  ask(&c);
  answer(CURLE_OK);
  CHECK(told == 6 && c.status == 200);
  ask(&c); /* dropped while it is under way */
  given->spoiled = true;
  dlk_http_drop(&c);
  ask(&c);
  end(&c);
}

/* H2. */
TEST(no_body_can_be_sent_twice) {
  struct dlk_http_call c = {.told = NULL};
  begin();
  ask(&c);
  CHECK(given->reads && !given->rewinds);
  answer(CURLE_SEND_FAIL_REWIND);
  CHECK(c.status == 0 && c.unsent && strstr(c.text, "connection ended"));
  end(&c);
}

static bool sends(const char *token) {
  const struct curl_slist *last = given->headers;
  while (last->next)
    last = last->next;
  return strcmp(last->data, token) == 0;
}

TEST(a_call_keeps_the_token_with_which_it_began) {
  struct dlk_http_call before = {.told = NULL}, c = {.told = NULL};
  begin();
  CHECK(dlk_http_token(&http, "a"));
  ask(&before);
  struct easy *first = given;
  CHECK(dlk_http_token(&http, "b"));
  CHECK(sends("X-Consul-Token: a"));
  ask(&c);
  CHECK(sends("X-Consul-Token: b"));
  answer(CURLE_OK);
  CHECK(!c.outdated);
  given = first;
  CHECK(sends("X-Consul-Token: a"));
  answer(CURLE_OK);
  CHECK(before.outdated);
  dlk_http_drop(&before);
  end(&c);
}

int main(void) {
  return check_all();
}
