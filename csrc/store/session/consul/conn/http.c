/* libcurl names its sockets and its timer. The sockets stand in an epoll
 * descriptor, so that the loop, and the renewal thread, have one for all.
 *
 * H1. libcurl's callbacks only keep what came. Owners are told afterwards: they
 *     may begin or drop calls, or close it all.
 * H2. No request with a body is sent twice. libcurl sends one again whose
 *     connection ends without an answer, though it may be done; nothing forbids
 *     that. But the body is read by a function that cannot go back: the request
 *     ends with SEND_FAIL_REWIND, which is a lost answer. Those without a body
 *     (reads, a renewal, the session's end) may be done twice.
 * H3. Nothing of the process has a say: no proxy, no netrc. Signals are
 *     blocked: threads that look up names inherit that, and OpenSSL may raise
 *     SIGPIPE.
 * H4. Calls that last have connections of their own pool. They leave the others
 *     to short calls: a session that is renewed keeps an open one.
 * H5. A handle whose call got no answer serves no other: from libcurl 8.7 on it
 *     would fail to rewind once more. */
#include "store/session/consul/conn/http.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <uv.h>

#include "core/clock.h"
#include "core/quiet.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define PORT 8500
#define AT_ONCE 16
#define IDLE_MOST 32L
#define IDLE_AGE 86400L /* seconds */

/* libcurl keeps no copy of them. */
struct dlk_http_headers {
  struct curl_slist *list;
  size_t users; /* calls, and http itself */
};

struct dlk_http_poll {
  uv_poll_t handle;
  struct dlk_http *http;
  void (*gone)(void *arg);
  void *arg;
};

/* ---- libcurl's callbacks ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                     void *known) {
  const struct dlk_http_pool *pool = arg;
  const struct dlk_http *h = pool->http;
  uint64_t index = (uint64_t)(pool - h->pools);
  struct epoll_event e = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                                    (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                          .data.u64 = index << 32 | (uint32_t)fd};
  (void)easy, (void)known;
  if (what == CURL_POLL_REMOVE)
    (void)epoll_ctl(h->all, EPOLL_CTL_DEL, fd, &e);
  else if (epoll_ctl(h->all, EPOLL_CTL_ADD, fd, &e) != 0)
    (void)epoll_ctl(h->all, EPOLL_CTL_MOD, fd, &e);
  return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg) {
  struct dlk_http_pool *pool = arg;
  struct dlk_host *host = pool->http->host;
  (void)multi;
  if (ms < 0)
    host->timer_clear(host, &pool->timer);
  else
    host->timer_set(host, &pool->timer, host->now(host) + ms * DLK_MS);
  return 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose,
                                 struct curl_sockaddr *at) {
  (void)arg, (void)purpose;
  return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg) {
  struct dlk_http_call *c = arg;
  dlk_buf_add(&c->in, bytes, size * n);
  return c->in.failed || c->in.len > ANSWER_MAX ? 0 : size * n;
}

static size_t on_read(char *to, size_t size, size_t n, void *arg) {
  struct dlk_http_call *c = arg;
  size_t part = size * n < c->left ? size * n : c->left;
  memcpy(to, c->body, part);
  c->body += part;
  c->left -= part;
  return part;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg) {
  struct dlk_http_call *c = arg;
  char text[100];
  snprintf(text, sizeof text, "%.*s", (int)(size * n < 99 ? size * n : 99),
           line);
  if (strncasecmp(text, "x-consul-index:", 15) == 0)
    c->index = strtoll(text + 15, NULL, 10);
  else if (strncasecmp(text, "date:", 5) == 0)
    c->date_ms = (int64_t)curl_getdate(text + 5, NULL) * 1000;
  return size * n;
}

/* ---- calls ---- */

/* Takes NULL. */
static void let_go(struct dlk_http_headers *headers) {
  if (!headers || --headers->users > 0)
    return;
  for (struct curl_slist *at = headers->list; at; at = at->next)
    explicit_bzero(at->data, strlen(at->data));
  curl_slist_free_all(headers->list);
  free(headers);
}

static void take_off(struct dlk_http_call *c) {
  struct dlk_http_pool *pool = c->on;
  if (!pool)
    return;
  struct dlk_http *h = pool->http;
  c->on = NULL;
  pool->flying--;
  (void)curl_multi_remove_handle(pool->multi, c->easy);
  (void)curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, NULL);
  if (c->status != 0 && h->idle_count < DLK_HTTP_IDLE)
    h->idle[h->idle_count++] = c->easy;
  else
    curl_easy_cleanup(c->easy);
  c->outdated = c->headers != h->headers;
  let_go(c->headers);
  c->headers = NULL;
}

/* The agent's limit of connections ends a new one with a status, or with
 * nothing if there is TLS, or if the request came too early to be read. */
static void at_limit(struct dlk_http_call *c, const char *text) {
  char why[CURL_ERROR_SIZE];
  (void)snprintf(why, sizeof why,
                 "the agent ends a new connection at once; is its limit "
                 "http_max_conns_per_client reached? (%.100s)",
                 text);
  memcpy(c->text, why, sizeof why);
  dlk_buf_clear(&c->in);
}

static bool is_reset(const struct dlk_http_call *c, CURLcode code, bool tls) {
  if (tls)
    return code == CURLE_SSL_CONNECT_ERROR &&
           (strstr(c->text, "SYSCALL") || strstr(c->text, "eset by peer") ||
            strstr(c->text, "unexpected eof"));
  return code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR;
}

/* What became of the connection, and so of the request. */
static void look(struct dlk_http_call *c, CURLcode code) {
  long connects = 0, sent = 0;
  (void)curl_easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &connects);
  (void)curl_easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &sent);
  c->fresh = connects > 0 || sent == 0;
  if (c->status == 429 && connects > 0) {
    at_limit(c, "status 429");
  } else if (c->fresh && is_reset(c, code, c->on->http->tls)) {
    at_limit(c, c->text);
    c->insecure = false;
    c->unsent = true;
  }
}

/* libcurl does not tell whether the key is encrypted. */
static void hint_password(struct dlk_http_call *c) {
  static const char hint[] = " (tls.key_password opens an encrypted key)";
  size_t n = strcspn(c->text, "\n");
  if (n + sizeof hint <= sizeof c->text)
    memcpy(c->text + n, hint, sizeof hint);
}

static void explain(struct dlk_http_call *c, CURLcode code) {
  long error = 0;
  switch (code) {
  case CURLE_COULDNT_CONNECT:
    (void)curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &error);
    c->error = (int)error;
    if (error)
      (void)snprintf(c->text, sizeof c->text, "%s",
                     dlk_reason((char[DLK_REASON_MAX]){0}, c->error));
    break;
  case CURLE_OPERATION_TIMEDOUT:
    (void)snprintf(c->text, sizeof c->text, "the agent is silent");
    break;
  case CURLE_SEND_FAIL_REWIND: /* H2 */
    c->unsent = true;
    (void)snprintf(c->text, sizeof c->text,
                   "the connection ended before the answer");
    break;
  case CURLE_GOT_NOTHING:
  case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9 */
  case CURLE_WEIRD_SERVER_REPLY:
    (void)snprintf(c->text, sizeof c->text, "what answers there is no agent");
    break;
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_SSL_CIPHER:
    c->insecure = !strstr(c->text, "wrong version number");
    if (!c->insecure)
      (void)snprintf(c->text, sizeof c->text,
                     "what answers there is without "
                     "TLS (consul:// is the agent's plain port)");
    if (code == CURLE_SSL_CERTPROBLEM && strstr(c->text, "private key"))
      hint_password(c);
    break;
  default: /* TLS 1.3 tells when it is read */
    c->insecure = strstr(c->text, "alert") != NULL;
    c->unsent = code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR;
  }
  if (!c->text[0])
    (void)snprintf(c->text, sizeof c->text, "%s", curl_easy_strerror(code));
}

static void act(struct dlk_http_pool *pool, curl_socket_t fd, int what) {
  struct dlk_quiet quiet;
  sigset_t all;
  CURLMsg *m;
  int left;
  dlk_quiet_begin(&quiet);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  (void)curl_multi_socket_action(pool->multi, fd, what, &left);
  dlk_quiet_end(&quiet, pool->http->tls);
  while (pool->multi && (m = curl_multi_info_read(pool->multi, &left))) {
    char *arg = NULL;
    CURLcode code = m->data.result;
    (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &arg);
    struct dlk_http_call *c = (struct dlk_http_call *)(void *)arg;
    if (code == CURLE_OK)
      (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    else
      explain(c, code);
    look(c, code);
    take_off(c);
    c->told(c);
  }
}

static void on_poll(uv_poll_t *handle, int status, int events) {
  struct dlk_http *h = ((struct dlk_http_poll *)(void *)handle)->http;
  struct epoll_event got[AT_ONCE];
  int n = epoll_wait(h->all, got, AT_ONCE, 0);
  (void)status, (void)events;
  for (int i = 0; i < n; i++) {
    struct dlk_http_pool *pool = &h->pools[got[i].data.u64 >> 32];
    if (!pool->multi)
      return;
    act(pool, (int)(uint32_t)got[i].data.u64,
        (got[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
            (got[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
            (got[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
  }
}

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  act(DLK_CONTAINER(timer, struct dlk_http_pool, timer), CURL_SOCKET_TIMEOUT,
      0);
}

static const char *setting(const struct dlk_http *h, const char *key) {
  const struct dlk_option *o = dlk_option_find(&h->conf->options, "tls", key);
  return o ? o->text : NULL;
}

static void secure(struct dlk_http *h, CURL *e) {
  static const struct {
    const char *key;
    CURLoption option;
  } texts[] = {{"cert", CURLOPT_SSLCERT},
               {"key", CURLOPT_SSLKEY},
               {"key_password", CURLOPT_KEYPASSWD},
               {"ciphers", CURLOPT_SSL_CIPHER_LIST},
               {"ciphersuites", CURLOPT_TLS13_CIPHERS}};
  const struct dlk_option *verify =
      dlk_option_find(&h->conf->options, "tls", "verify");
  const char *least = setting(h, "min_version");
  bool trust = verify && !verify->text && verify->number == 0;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (setting(h, texts[i].key))
      (void)curl_easy_setopt(e, texts[i].option, setting(h, texts[i].key));
  if (!setting(h, "key_password")) /* OpenSSL asks the terminal for none */
    (void)curl_easy_setopt(e, CURLOPT_KEYPASSWD, "");
  if (setting(h, "cafile") || setting(h, "capath")) { /* and no others */
    (void)curl_easy_setopt(e, CURLOPT_CAINFO, setting(h, "cafile"));
    (void)curl_easy_setopt(e, CURLOPT_CAPATH, setting(h, "capath"));
  }
  (void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, trust ? 0L : 1L);
  (void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, trust ? 0L : 2L);
  (void)curl_easy_setopt(e, CURLOPT_SSLVERSION,
                         least && strcmp(least, "1.3") == 0
                             ? (long)CURL_SSLVERSION_TLSv1_3
                             : (long)CURL_SSLVERSION_TLSv1_2);
}

/* What all calls have alike. */
static CURL *new_easy(struct dlk_http *h) {
  CURL *e = curl_easy_init();
  if (!e)
    return NULL;
  (void)curl_easy_setopt(e, CURLOPT_CONNECT_TO, h->connect_to);
  (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
  (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
  (void)curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
  (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
  (void)curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, IDLE_AGE);
  (void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                         (long)dlk_to_ms(h->conf->connect_timeout));
  if (h->tls)
    secure(h, e);
  return e;
}

/* H2: not by CURLOPT_POSTFIELDS, which libcurl can send again. */
static bool prepare(struct dlk_http *h, struct dlk_http_call *c,
                    const char *path, int64_t timeout) {
  CURL *e = c->easy;
  struct dlk_buf url = {0};
  dlk_buf_addf(&url, "%s%s", h->origin, path);
  dlk_buf_add(&url, "", 1);
  bool ok = e && !url.failed &&
            curl_easy_setopt(e, CURLOPT_URL, url.data) == CURLE_OK;
  dlk_buf_free(&url);
  if (!ok)
    return false;
  (void)curl_easy_setopt(e, CURLOPT_PRIVATE, c);
  (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
  (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
  (void)curl_easy_setopt(e, CURLOPT_READDATA, c);
  (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->text);
  (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER,
                         h->headers ? h->headers->list : NULL);
  (void)curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, c->anew ? 1L : 0L);
  (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)dlk_to_ms(timeout));
  (void)curl_easy_setopt(e, c->body ? CURLOPT_UPLOAD : CURLOPT_HTTPGET, 1L);
  (void)curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->left);
  return true;
}

bool dlk_http_start(struct dlk_http *h, struct dlk_http_call *c,
                    const char *path, const char *body, size_t len,
                    int64_t timeout) {
  struct dlk_http_pool *pool =
      &h->pools[c->lasts ? DLK_HTTP_LASTING : DLK_HTTP_SHORT];
  dlk_buf_clear(&c->in);
  c->status = c->error = 0;
  c->insecure = c->unsent = c->fresh = c->outdated = false;
  c->index = c->date_ms = 0;
  c->text[0] = '\0';
  c->sent = h->host->now(h->host);
  c->easy = h->idle_count ? h->idle[--h->idle_count] : new_easy(h);
  c->body = body;
  c->left = len;
  if (prepare(h, c, path, timeout) &&
      curl_multi_add_handle(pool->multi, c->easy) == CURLM_OK) {
    pool->flying++;
    c->on = pool;
    c->headers = h->headers;
    if (c->headers)
      c->headers->users++;
    return true;
  }
  curl_easy_cleanup(c->easy);
  return false;
}

void dlk_http_drop(struct dlk_http_call *c) {
  take_off(c);
  dlk_buf_free(&c->in);
}

/* ---- all of them ---- */

static bool loaded;

static void load(void) {
  loaded = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
}

bool dlk_http_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, load);
  return loaded;
}

static void on_closed(uv_handle_t *handle) {
  struct dlk_http_poll *p = (struct dlk_http_poll *)(void *)handle;
  void (*gone)(void *) = p->gone;
  void *arg = p->arg;
  free(p);
  gone(arg);
}

/* The name in the certificate may be another than the host's. */
static void locate(struct dlk_http *h) {
  char to[600];
  const struct dlk_addr *at = &h->conf->hosts[0];
  unsigned port = at->port ? at->port : PORT;
  bool v6 = strchr(at->host, ':') != NULL;
  const char *name = h->tls ? setting(h, "server_name") : NULL;
  char host[260];
  (void)snprintf(host, sizeof host, "%s%.256s%s", v6 ? "[" : "", at->host,
                 v6 ? "]" : "");
  (void)snprintf(h->origin, sizeof h->origin, "%s://%.250s:%u",
                 h->tls ? "https" : "http", name ? name : host, port);
  (void)snprintf(to, sizeof to, "::%.259s:%u", host, port);
  if (name)
    h->connect_to = curl_slist_append(NULL, to);
}

/* Before 8.11 libcurl leaves its own two sockets to programs that are run. They
 * get the lowest numbers that are free. */
static CURLM *new_multi(void) {
  int own[2] = {dup(0), dup(0)};
  close(own[0]);
  close(own[1]);
  CURLM *multi = curl_multi_init();
  for (int i = 0; multi && i < 2; i++) {
    struct sockaddr at = {0};
    socklen_t size = sizeof at;
    if (getsockname(own[i], &at, &size) == 0 && at.sa_family == AF_UNIX)
      (void)fcntl(own[i], F_SETFD, FD_CLOEXEC);
  }
  return multi;
}

static bool open_pool(struct dlk_http *h, struct dlk_http_pool *pool) {
  pool->http = h;
  pool->timer.fire = timer_fired;
  pool->multi = new_multi();
  if (!pool->multi)
    return false;
  (void)curl_multi_setopt(pool->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  (void)curl_multi_setopt(pool->multi, CURLMOPT_SOCKETDATA, pool);
  (void)curl_multi_setopt(pool->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  (void)curl_multi_setopt(pool->multi, CURLMOPT_TIMERDATA, pool);
  (void)curl_multi_setopt(pool->multi, CURLMOPT_MAXCONNECTS, IDLE_MOST);
  return true;
}

bool dlk_http_open(struct dlk_http *h, void (*gone)(void *arg), void *arg) {
  bool ok = true;
  for (size_t i = 0; i < DLK_HTTP_POOLS; i++)
    ok = open_pool(h, &h->pools[i]) && ok;
  h->all = epoll_create1(EPOLL_CLOEXEC);
  h->poll = calloc(1, sizeof *h->poll);
  locate(h);
  if (!ok || h->all < 0 || !h->poll ||
      uv_poll_init(h->host->loop(h->host), &h->poll->handle, h->all) != 0) {
    free(h->poll);
    h->poll = NULL;
    dlk_http_close(h);
    return false;
  }
  h->poll->http = h;
  h->poll->gone = gone;
  h->poll->arg = arg;
  (void)uv_poll_start(&h->poll->handle, UV_READABLE, on_poll);
  return true;
}

void dlk_http_close(struct dlk_http *h) {
  while (h->idle_count > 0)
    curl_easy_cleanup(h->idle[--h->idle_count]);
  for (size_t i = 0; i < DLK_HTTP_POOLS; i++) {
    (void)curl_multi_cleanup(h->pools[i].multi);
    h->pools[i].multi = NULL;
    h->host->timer_clear(h->host, &h->pools[i].timer);
  }
  let_go(h->headers);
  curl_slist_free_all(h->connect_to);
  h->headers = NULL;
  h->connect_to = NULL;
  if (h->poll)
    uv_close((uv_handle_t *)&h->poll->handle, on_closed);
  h->poll = NULL;
  if (h->all >= 0)
    close(h->all);
  h->all = -1;
}

/* Of one with a token. NULL: no memory. */
static struct curl_slist *list_of(const char *token) {
  struct dlk_buf line = {0};
  struct curl_slist *list = curl_slist_append(NULL, "Expect:"), *more = NULL;
  dlk_buf_reserve(&line, 8192);
  dlk_buf_addf(&line, "X-Consul-Token: %.*s",
               token ? (int)strcspn(token, "\r\n") : 0, token);
  dlk_buf_add(&line, "", 1);
  if (list && token && !line.failed)
    more = curl_slist_append(list, line.data);
  dlk_buf_wipe(&line);
  if (more || !token)
    return list;
  curl_slist_free_all(list);
  return NULL;
}

bool dlk_http_token(struct dlk_http *h, const char *token) {
  struct dlk_http_headers *headers = calloc(1, sizeof *headers);
  let_go(h->headers);
  h->headers = headers;
  if (!headers)
    return false;
  headers->users = 1;
  headers->list = list_of(token);
  if (headers->list)
    return true;
  let_go(headers);
  h->headers = NULL;
  return false;
}
