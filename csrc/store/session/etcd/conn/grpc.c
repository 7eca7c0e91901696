/* nghttp2 makes and reads the frames; the connection's bytes pass through its
 * memory alone.
 *
 * G1. nghttp2 calls back while it reads. These calls only keep what came; the
 *     owners are told afterwards, for they may begin calls or end the
 *     connection.
 * G2. Each call ends once: by trailers, by the stream's end (UNAVAILABLE), or
 *     silently with its connection, whose owner ends what it asked.
 * G3. A server that says GOAWAY is left at once: its calls may be done. So is
 *     one whose connection has used half of its streams' numbers. */
#include "store/session/etcd/conn/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW (4 << 20)
#define STREAMS (1 << 30) /* a connection has numbers for twice as many */
#define HEAD 5            /* a message's: a flag, 4 bytes of length */

static struct dlk_grpc *of(struct dlk_net_conn *n) {
  return (struct dlk_grpc *)(void *)n;
}

/* ---- messages ---- */

size_t dlk_grpc_open(struct dlk_grpc_call *c) {
  dlk_buf_add(&c->out, "\0\0\0\0", HEAD);
  return c->out.len;
}

bool dlk_grpc_next(struct dlk_grpc_call *c, struct dlk_etcd_bytes *message) {
  dlk_buf_shift(&c->in, c->in_at);
  c->in_at = 0;
  const unsigned char *p = (const unsigned char *)c->in.data;
  if (c->in.len < HEAD)
    return false;
  size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
  if (c->in.len - HEAD < n)
    return false;
  *message = (struct dlk_etcd_bytes){c->in.data + HEAD, n};
  c->in_at = HEAD + n;
  return true;
}

static ssize_t on_read(nghttp2_session *h2, int32_t stream, uint8_t *to,
                       size_t room, uint32_t *flags, nghttp2_data_source *from,
                       void *arg) {
  struct dlk_grpc_call *c = nghttp2_session_get_stream_user_data(h2, stream);
  (void)from, (void)arg;
  size_t n = c ? c->out.len - c->out_at : 0;
  if (n == 0 && c && c->streams)
    return NGHTTP2_ERR_DEFERRED;
  n = n < room ? n : room;
  if (n > 0)
    memcpy(to, c->out.data + c->out_at, n);
  if (c)
    c->out_at += n;
  if (!c || (c->out_at == c->out.len && !c->streams))
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (c && c->out_at == c->out.len && c->streams) {
    dlk_buf_clear(&c->out);
    c->out_at = 0;
  }
  return (ssize_t)n;
}

/* ---- calls ---- */

static nghttp2_nv header(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                      strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static bool start(struct dlk_grpc *g, struct dlk_grpc_call *c) {
  char path[64], authority[300];
  const struct dlk_net_address *at = g->net.at;
  snprintf(path, sizeof path, "/etcdserverpb.%s", c->method);
  snprintf(authority, sizeof authority,
           strchr(at->host, ':') ? "[%.256s]:%u" : "%.256s:%u", at->host,
           (unsigned)at->port);
  nghttp2_nv headers[9] = {
      header(":method", "POST"),
      header(":scheme", at->tls ? "https" : "http"),
      header(":path", path),
      header(":authority", authority),
      header("content-type", "application/grpc"),
      header("te", "trailers"),
  };
  size_t count = 6;
  if (c->streams)
    headers[count++] = header("hasleader", "true");
  if (g->token.len > 0) {
    headers[count] = header("token", g->token.data);
    headers[count++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
  }
  nghttp2_data_provider data = {.read_callback = on_read};
  c->status = -1;
  c->over = c->news = false;
  c->text[0] = '\0';
  c->out_at = c->in_at = 0;
  dlk_buf_clear(&c->in);
  c->sent = dlk_net_conn_now(&g->net);
  if (c->out.failed)
    return false;
  c->stream = nghttp2_submit_request(g->h2, NULL, headers, count, &data, c);
  if (c->stream < 0)
    return false;
  g->going |= c->stream > STREAMS;
  c->on = g;
  dlk_list_append(&g->calls, &c->link);
  return true;
}

static void leave(struct dlk_grpc_call *c) {
  if (!c->on)
    return;
  dlk_list_remove(&c->link);
  if (c->on->h2 && !c->over) {
    (void)nghttp2_session_set_stream_user_data(c->on->h2, c->stream, NULL);
    (void)nghttp2_submit_rst_stream(c->on->h2, NGHTTP2_FLAG_NONE, c->stream,
                                    NGHTTP2_CANCEL);
  }
  c->on = NULL;
}

void dlk_grpc_drop(struct dlk_grpc_call *c) {
  leave(c);
  dlk_buf_free(&c->out);
  dlk_buf_free(&c->in);
}

void dlk_grpc_init_call(struct dlk_grpc_call *c, struct dlk_grpc *g,
                        const char *method, bool streams,
                        void (*told)(struct dlk_grpc_call *c)) {
  if (c->on && streams)
    return;
  dlk_grpc_drop(c);
  c->owner = g;
  c->method = method;
  c->streams = streams;
  c->told = told;
}

bool dlk_grpc_say(struct dlk_grpc_call *c, size_t mark) {
  size_t n = c->out.len - mark;
  if (c->out.failed)
    return false;
  for (size_t i = 1; i < HEAD; i++, n >>= 8)
    c->out.data[mark - i] = (char)(n & 0xff);
  if (!c->on)
    return start(c->owner, c);
  return nghttp2_session_resume_data(c->on->h2, c->stream) != NGHTTP2_ERR_NOMEM;
}

/* ---- what nghttp2 tells (G1) ---- */

static bool is(const uint8_t *p, size_t n, const char *word) {
  return n == strlen(word) && memcmp(p, word, n) == 0;
}

/* What is not printable comes as %XX, and stays so. */
static void keep_text(struct dlk_grpc_call *c, const uint8_t *p, size_t n) {
  size_t to = 0;
  for (; to < n && to + 1 < sizeof c->text; to++)
    c->text[to] = p[to] >= ' ' && p[to] < 127 ? (char)p[to] : '?';
  c->text[to] = '\0';
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t len, uint8_t flags, void *arg) {
  struct dlk_grpc_call *c =
      nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
  (void)flags, (void)arg;
  if (!c)
    return 0;
  if (is(name, name_len, "grpc-status") && len > 0 && len < 4) {
    c->status = 0;
    for (size_t i = 0; i < len; i++)
      c->status = c->status * 10 + (value[i] & 15);
  } else if (is(name, name_len, "grpc-message")) {
    keep_text(c, value, len);
  } else if (is(name, name_len, ":status") && !is(value, len, "200")) {
    snprintf(c->text, sizeof c->text, "HTTP status %.*s", (int)len,
             (const char *)value);
  }
  return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream,
                   const uint8_t *data, size_t len, void *arg) {
  struct dlk_grpc_call *c = nghttp2_session_get_stream_user_data(h2, stream);
  (void)flags, (void)arg;
  if (!c)
    return 0;
  dlk_buf_add(&c->in, data, len);
  c->news |= c->streams;
  return c->in.failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_close(nghttp2_session *h2, int32_t stream, uint32_t error,
                    void *arg) {
  struct dlk_grpc_call *c = nghttp2_session_get_stream_user_data(h2, stream);
  (void)arg;
  if (!c)
    return 0;
  c->over = c->news = true;
  if (c->status < 0) {
    c->status = DLK_GRPC_UNAVAILABLE;
    if (!c->text[0])
      snprintf(c->text, sizeof c->text, "the stream was closed, error %u",
               (unsigned)error);
  }
  return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame,
                    void *arg) {
  struct dlk_grpc *g = arg;
  (void)h2;
  if (frame->hd.type == NGHTTP2_GOAWAY)
    g->going = true;
  if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
    g->pinged = 0;
  return 0;
}

static bool new_session(struct dlk_grpc *g) {
  nghttp2_session_callbacks *calls;
  if (nghttp2_session_callbacks_new(&calls) != 0)
    return false;
  nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
  bool ok = nghttp2_session_client_new(&g->h2, calls, g) == 0;
  nghttp2_session_callbacks_del(calls);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
  return ok &&
         nghttp2_submit_settings(g->h2, NGHTTP2_FLAG_NONE, settings, 2) == 0 &&
         nghttp2_session_set_local_window_size(g->h2, NGHTTP2_FLAG_NONE, 0,
                                               WINDOW) == 0;
}

/* ---- the protocol ---- */

/* False: no memory. */
static bool put_frames(struct dlk_grpc *g) {
  const uint8_t *bytes;
  ssize_t n;
  while ((n = nghttp2_session_mem_send(g->h2, &bytes)) > 0)
    dlk_buf_add(&g->net.out, bytes, (size_t)n);
  return n == 0 && !g->net.out.failed;
}

void dlk_grpc_flush(struct dlk_grpc *g) {
  if (!g->h2 || g->net.state < DLK_NET_HANDSHAKE ||
      g->net.state > DLK_NET_READY || !nghttp2_session_want_write(g->h2))
    return;
  if (!put_frames(g))
    dlk_net_conn_lost(&g->net, "out of memory");
  else if (g->net.state == DLK_NET_READY)
    dlk_net_conn_asked(&g->net, dlk_net_conn_now(&g->net));
  else
    dlk_net_conn_send(&g->net);
}

static bool greet(struct dlk_net_conn *n) {
  struct dlk_grpc *g = of(n);
  g->going = false;
  g->pinged = 0;
  dlk_buf_wipe(&g->token);
  return new_session(g) && g->events->greet(g) && put_frames(g);
}

/* Tells each call with news, once; false: the connection ended meanwhile. */
static bool tell(struct dlk_grpc *g) {
  const struct nghttp2_session *h2 = g->h2;
  for (struct dlk_list *l = g->calls.next; l != &g->calls;) {
    struct dlk_grpc_call *c = DLK_CONTAINER(l, struct dlk_grpc_call, link);
    if (!c->news) {
      l = l->next;
      continue;
    }
    c->news = false;
    if (c->over)
      leave(c);
    c->told(c);
    if (g->h2 != h2)
      return false;
    l = g->calls.next; /* any may have left */
  }
  return true;
}

static void not_etcd(struct dlk_net_conn *n) {
  if (n->state < DLK_NET_READY)
    dlk_net_conn_discard(
        n, DLK_INVALID,
        n->at->tls ? "what answers there is not an etcd server; check host and "
                     "port"
                   : "what answers there is not an etcd server, or wants TLS "
                     "(etcds://); check host and port");
  else
    dlk_net_conn_lost(n, "the server's answer broke the protocol");
}

static bool take(struct dlk_net_conn *n, const char *bytes, size_t len) {
  struct dlk_grpc *g = of(n);
  ssize_t read = nghttp2_session_mem_recv(g->h2, (const uint8_t *)bytes, len);
  if (read < 0) {
    not_etcd(n);
    return false;
  }
  if (!tell(g))
    return false;
  if (g->going) {
    dlk_net_conn_lost(n, "the server takes no more requests on it");
    return false;
  }
  const struct nghttp2_session *h2 = g->h2;
  dlk_grpc_flush(g);
  if (g->h2 != h2)
    return false;
  if (nghttp2_session_want_read(g->h2))
    return true;
  not_etcd(n); /* nghttp2 has said GOAWAY */
  return false;
}

static void closed(struct dlk_net_conn *n) {
  struct dlk_grpc *g = of(n);
  nghttp2_session *h2 = g->h2;
  g->h2 = NULL;
  while (!dlk_list_empty(&g->calls))
    leave(DLK_CONTAINER(g->calls.next, struct dlk_grpc_call, link));
  nghttp2_session_del(h2);
}

static void broken(struct dlk_net_conn *n, const struct dlk_error *why) {
  of(n)->events->broken(of(n), why);
}

static void failed(struct dlk_net_conn *n, const struct dlk_error *why) {
  of(n)->events->failed(of(n), why);
}

static bool waits(const struct dlk_net_conn *n) {
  const struct dlk_grpc *g = (const struct dlk_grpc *)(const void *)n;
  return g->events->waits(g);
}

static int64_t oldest(const struct dlk_net_conn *n) {
  const struct dlk_grpc *g = (const struct dlk_grpc *)(const void *)n;
  return g->pinged ? g->pinged : g->events->oldest(g);
}

/* Asked of an idle connection: it is to stay, so its server must answer. */
static bool needed(struct dlk_net_conn *n) {
  struct dlk_grpc *g = of(n);
  if (nghttp2_submit_ping(g->h2, NGHTTP2_FLAG_NONE, NULL) == 0)
    g->pinged = dlk_net_conn_now(n);
  dlk_grpc_flush(g);
  return true;
}

static const struct dlk_net_protocol protocol = {
    .greet = greet,
    .take = take,
    .closed = closed,
    .broken = broken,
    .failed = failed,
    .waits = waits,
    .oldest = oldest,
    .needed = needed,
    .mute = "accepts connections but does not answer; is it etcd?",
    .hung_up = " at the first request; if it wants TLS, use etcds://"};

void dlk_grpc_init(struct dlk_grpc *g) {
  dlk_net_conn_init(&g->net);
  g->net.protocol = &protocol;
  dlk_list_init(&g->calls);
}

void dlk_grpc_free(struct dlk_grpc *g) {
  dlk_net_conn_free(&g->net);
  dlk_buf_wipe(&g->token);
}
