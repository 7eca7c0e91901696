/* HTTP requests of one session, by libcurl in the host's loop. */
#ifndef DLK_STORE_SESSION_CONSUL_CONN_HTTP_H
#define DLK_STORE_SESSION_CONSUL_CONN_HTTP_H

#include <curl/curl.h>

#include "core/buf.h"
#include "core/list.h"
#include "core/timer.h"
#include "store/host.h"

#define DLK_HTTP_IDLE 8

enum { DLK_HTTP_SHORT, DLK_HTTP_LASTING, DLK_HTTP_POOLS };

struct dlk_http;
struct dlk_http_headers;

/* Connections, of which a call takes one that is idle, or a new one. */
struct dlk_http_pool {
  struct dlk_http *http;
  CURLM *multi;
  struct dlk_timer timer;
  size_t flying; /* calls under way */
};

struct dlk_http {
  struct dlk_host *host;
  const struct dlk_conf *conf;
  bool tls;
  struct dlk_http_pool pools[DLK_HTTP_POOLS];
  int all; /* an epoll descriptor: its sockets */
  struct dlk_http_poll *poll;
  struct dlk_http_headers *headers; /* of the calls to come */
  struct curl_slist *connect_to;
  CURL *idle[DLK_HTTP_IDLE];
  size_t idle_count;
  char origin[300]; /* "http://127.0.0.1:8500" */
};

/* Zeroed it is ready. */
struct dlk_http_call {
  struct dlk_http_pool *on; /* NULL: not under way */
  bool lasts;               /* in the pool of such calls */
  bool anew;                /* by a new connection */
  void (*told)(struct dlk_http_call *c);
  CURL *easy;
  struct dlk_http_headers *headers;
  int64_t sent;
  long status;            /* 0: no answer; text says why */
  int error;              /* why there is no connection; 0: something else */
  bool insecure;          /* TLS does not let us */
  bool unsent;            /* the connection ended while it was asked */
  bool outdated;          /* another token was given meanwhile */
  bool fresh;             /* its connection was new, or there is none */
  int64_t index, date_ms; /* X-Consul-Index, Date; 0: not given */
  const char *body;
  size_t left; /* of it */
  struct dlk_buf in;
  char text[CURL_ERROR_SIZE];
};

/* Once a process. */
bool dlk_http_library(void);
/* gone(arg): after close, when the loop has let go. False: no memory. */
bool dlk_http_open(struct dlk_http *h, void (*gone)(void *arg), void *arg);
/* Ends all calls. */
void dlk_http_close(struct dlk_http *h);
/* Sent with the calls to come. False: no memory; then there is none. */
bool dlk_http_token(struct dlk_http *h, const char *token);
/* body NULL: a GET; else a PUT, and body stays until `told`, which is called
 * from the loop. Then c is free for another. */
bool dlk_http_start(struct dlk_http *h, struct dlk_http_call *c,
                    const char *path, const char *body, size_t len,
                    int64_t timeout);
/* It is told no more, and frees what it has. */
void dlk_http_drop(struct dlk_http_call *c);

#endif
