/* The floor under `make bench` on etcd, as a worker of bench/crowd.lua: the
 * least requests on one connection, over nghttp2 on a blocking socket, with the
 * store's own messages.
 *
 *   floor_etcd HOST:PORT pairs
 *       a transaction (put on a lease, and list), then one that deletes, in a
 *       folder of its own
 *   floor_etcd HOST:PORT handoff MS
 *       one of many in one folder, who hold for MS each: put and list, a watch
 *       of the key ahead; when that is deleted, the lock is held. Nobody gives
 *       up here and no connection is lost. */
#include "floor.h"
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "store/session/etcd/wire/messages.h"

#define HEAD 5

struct call {
  struct dlk_buf out, in;
  size_t out_at;
  bool streams, over;
  int32_t id;
};

static int fd;
static nghttp2_session *h2;
static struct call unary, watcher;
static struct dlk_buf folder, own, ahead;
static int64_t lease, created, watches;

static void fail(const char *what) {
  fprintf(stderr, "floor_etcd: %s\n", what);
  exit(1);
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to,
                       size_t room, uint32_t *flags, nghttp2_data_source *from,
                       void *arg) {
  struct call *c = nghttp2_session_get_stream_user_data(session, id);
  size_t n = c->out.len - c->out_at;
  (void)from, (void)arg;
  if (n == 0 && c->streams)
    return NGHTTP2_ERR_DEFERRED;
  n = n < room ? n : room;
  memcpy(to, c->out.data + c->out_at, n);
  c->out_at += n;
  if (!c->streams && c->out_at == c->out.len)
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  return (ssize_t)n;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                   const uint8_t *data, size_t len, void *arg) {
  struct call *c = nghttp2_session_get_stream_user_data(session, id);
  (void)flags, (void)arg;
  dlk_buf_add(&c->in, data, len);
  return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error,
                    void *arg) {
  struct call *c = nghttp2_session_get_stream_user_data(session, id);
  (void)error, (void)arg;
  c->over = true;
  return 0;
}

static void flush(void) {
  const uint8_t *bytes;
  ssize_t n;
  while ((n = nghttp2_session_mem_send(h2, &bytes)) > 0)
    if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
      fail("cannot send");
}

static void receive(void) {
  uint8_t bytes[16384];
  ssize_t n = recv(fd, bytes, sizeof bytes, 0);
  if (n <= 0 || nghttp2_session_mem_recv(h2, bytes, (size_t)n) < 0)
    fail("the connection is lost");
  flush();
}

static size_t open_message(struct call *c) {
  dlk_buf_clear(&c->out);
  c->out_at = 0;
  dlk_buf_add(&c->out, "\0\0\0\0", HEAD);
  return HEAD;
}

static void say(struct call *c, const char *path) {
  size_t n = c->out.len - HEAD;
  for (size_t i = HEAD - 1; i > 0; i--, n >>= 8)
    c->out.data[i] = (char)n;
#define FIELD(name, value)                                                     \
  {(uint8_t *)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1,         \
   strlen(value), NGHTTP2_NV_FLAG_NONE}
  nghttp2_nv fields[] = {
      FIELD(":method", "POST"), FIELD(":scheme", "http"),
      FIELD(":path", path),     FIELD(":authority", "localhost"),
      FIELD("te", "trailers"),  FIELD("content-type", "application/grpc"),
  };
  nghttp2_data_provider data = {.read_callback = on_read};
  if (c->id == 0)
    c->id = nghttp2_submit_request(h2, NULL, fields, 6, &data, c);
  else
    nghttp2_session_resume_data(h2, c->id);
  flush();
}

/* The answer's message. */
static struct dlk_etcd_bytes ask(const char *path) {
  dlk_buf_clear(&unary.in);
  unary.over = false;
  unary.id = 0;
  say(&unary, path);
  while (!unary.over)
    receive();
  if (unary.in.len < HEAD)
    fail("no answer");
  return (struct dlk_etcd_bytes){unary.in.data + HEAD, unary.in.len - HEAD};
}

static struct dlk_etcd_bytes of(const struct dlk_buf *b) {
  return (struct dlk_etcd_bytes){b->data, b->len};
}

static void grant(void) {
  struct dlk_etcd_leased got;
  open_message(&unary);
  dlk_etcd_grant(&unary.out, 60, 0);
  if (!dlk_etcd_leased(ask("/etcdserverpb.Lease/LeaseGrant"), &got))
    fail("no lease");
  lease = got.id;
  dlk_buf_addf(&own, "%sx-%032llx-0123456789abcdef", folder.data,
               (unsigned long long)lease);
}

/* A key of ours in the folder, and which is ahead of it; the revision. */
static int64_t join(void) {
  static const char value[] = "owner=floor/1\nunits=0\ncap=0\nttl=30000\n";
  struct dlk_etcd_put put = {
      of(&own), {value, sizeof value - 1}, .lease = lease};
  struct dlk_etcd_range list = {
      .key = of(&folder), .folder = true, .keys_only = true};
  struct dlk_etcd_did did;
  struct dlk_etcd_kv kv;
  int64_t last = 0;
  open_message(&unary);
  dlk_etcd_do_put(&unary.out, &put);
  dlk_etcd_do_range(&unary.out, DLK_ETCD_THEN, &list);
  if (!dlk_etcd_did(ask("/etcdserverpb.KV/Txn"), &did) || !did.succeeded)
    fail("not put");
  created = did.range.revision;
  dlk_buf_clear(&ahead);
  while (dlk_etcd_next_kv(&did.range.kvs, &kv))
    if (kv.created < created && kv.created > last) {
      last = kv.created;
      dlk_buf_clear(&ahead);
      dlk_buf_add(&ahead, kv.key.p, kv.key.n);
    }
  return created;
}

static void leave(void) {
  struct dlk_etcd_did did;
  open_message(&unary);
  dlk_etcd_if(&unary.out, of(&own), DLK_ETCD_CREATE, created);
  dlk_etcd_do_delete(&unary.out, of(&own), false);
  if (!dlk_etcd_did(ask("/etcdserverpb.KV/Txn"), &did) || did.deleted != 1)
    fail("not deleted");
}

/* True: an event of this watch. */
static bool take_event(int64_t id) {
  bool told = false, deleted;
  for (;;) {
    const unsigned char *p = (const unsigned char *)watcher.in.data;
    size_t n = watcher.in.len < HEAD ? 0
                                     : (size_t)p[1] << 24 | (size_t)p[2] << 16 |
                                           (size_t)p[3] << 8 | p[4];
    if (watcher.in.len < HEAD || watcher.in.len < HEAD + n)
      return told;
    struct dlk_etcd_watched got;
    struct dlk_etcd_bytes m = {watcher.in.data + HEAD, n};
    if (dlk_etcd_watched(m, &got) && got.id == id)
      told |= dlk_etcd_next_event(&got.events, &deleted);
    dlk_buf_shift(&watcher.in, HEAD + n);
  }
}

static void await_ahead(int64_t revision) {
  int64_t id = ++watches;
  open_message(&watcher);
  dlk_etcd_watch(&watcher.out, of(&ahead), false, id, revision + 1);
  say(&watcher, "/etcdserverpb.Watch/Watch");
  while (!take_event(id))
    receive();
  open_message(&watcher);
  dlk_etcd_unwatch(&watcher.out, id);
  say(&watcher, "/etcdserverpb.Watch/Watch");
}

static void pairs(void) {
  long long stop = floor_go();
  do {
    join();
    leave();
    floor_pairs++;
  } while (floor_now() < stop);
}

static void hand_over(long ms) {
  long long stop = floor_go();
  bool in_time;
  do {
    int64_t revision = join();
    if (ahead.len > 0)
      await_ahead(revision);
    in_time = floor_hold(ms, stop);
    leave();
  } while (in_time);
}

static void connect_to(const char *address) {
  struct sockaddr_in to = {.sin_family = AF_INET};
  char host[64];
  unsigned port;
  int on = 1;
  if (sscanf(address, "%63[^:]:%u", host, &port) != 2 ||
      inet_pton(AF_INET, host, &to.sin_addr) != 1)
    fail("no address");
  to.sin_port = htons((uint16_t)port);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0)
    fail("cannot connect");
  nghttp2_session_callbacks *calls;
  nghttp2_session_callbacks_new(&calls);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
  nghttp2_session_client_new(&h2, calls, NULL);
  nghttp2_session_callbacks_del(calls);
  nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, NULL, 0);
}

int main(int argc, char **argv) {
  bool handing = argc == 4 && strcmp(argv[2], "handoff") == 0;
  if (!handing && !(argc == 3 && strcmp(argv[2], "pairs") == 0)) {
    fprintf(stderr, "usage: floor_etcd HOST:PORT pairs\n"
                    "       floor_etcd HOST:PORT handoff MS\n");
    return 64;
  }
  watcher.streams = true;
  connect_to(argv[1]);
  if (handing)
    dlk_buf_addf(&folder, "/dlock-floor/lock/");
  else
    dlk_buf_addf(&folder, "/dlock-floor/%ld/", (long)getpid());
  grant();
  if (handing)
    hand_over(atol(argv[3]));
  else
    pairs();
  floor_done();
  return 0;
}
