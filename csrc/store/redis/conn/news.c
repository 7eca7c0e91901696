/* One Sentinel of the list is listened to, the next one when that is lost. What
 * it says is no address to use, only a reason to ask all of them: it may be
 * old. What was said while nobody listened is made up for in the same way.
 *
 * Where the subscription is refused all else works, and a failover is noticed
 * late; so that is told, once. */
#include "store/redis/conn/news.h"

#include <hiredis/hiredis.h>
#include <string.h>

static void encode(struct dlk_redis_req *r, struct dlk_buf *out) {
  struct dlk_redis_news *n = DLK_CONTAINER(r, struct dlk_redis_news, hello);
  dlk_redis_sentinel_auth(n->all, r, out);
  dlk_redis_put_array(out, 2);
  dlk_redis_put_text(out, "SUBSCRIBE");
  dlk_redis_put_text(out, "+switch-master");
}

static void done(struct dlk_redis_req *r, const struct dlk_redis_answer *a) {
  struct dlk_redis_news *n = DLK_CONTAINER(r, struct dlk_redis_news, hello);
  if (!dlk_redis_sentinel_greeted(n->all, &n->conn, &n->at.address, r, a))
    return;
  n->refused = false;
  dlk_net_wake_set(n->wake, DLK_NET_WAKE_NEWS,
                   dlk_net_sock_fd(n->conn.net.sock));
  n->heard(n);
}

static struct dlk_redis_req *handshake(struct dlk_redis_conn *c) {
  struct dlk_redis_news *n = c->arg;
  return &n->hello;
}

static void broken(struct dlk_redis_conn *c, bool asked,
                   const struct dlk_error *why) {
  const struct dlk_redis_news *n = c->arg;
  (void)asked, (void)why;
  dlk_net_wake_set(n->wake, DLK_NET_WAKE_NEWS, -1);
}

static void failed(struct dlk_redis_conn *c, const struct dlk_error *why) {
  struct dlk_redis_news *n = c->arg;
  if (why->code != DLK_DENIED || n->refused)
    return;
  n->refused = true;
  n->all->host->event(n->all->host, "sentinel", why->text);
}

/* ["message", "+switch-master", "name old-host old-port host port"] */
static void push(struct dlk_redis_conn *c, const redisReply *reply) {
  struct dlk_redis_news *n = c->arg;
  size_t len = strlen(n->all->master);
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
      reply->element[2]->type != REDIS_REPLY_STRING)
    return;
  const char *text = reply->element[2]->str;
  if (strncmp(text, n->all->master, len) == 0 && text[len] == ' ')
    n->heard(n);
}

static bool needed(struct dlk_redis_conn *c) {
  return c->net.wanted;
}

static void gone(void *arg) {
  struct dlk_redis_conn *c = arg;
  const struct dlk_redis_news *n = c->arg;
  n->all->gone(n->all->gone_arg);
}

static const struct dlk_redis_conn_events events = {.handshake = handshake,
                                                    .broken = broken,
                                                    .failed = failed,
                                                    .push = push,
                                                    .needed = needed,
                                                    .gone = gone};

static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct dlk_redis_news *n = DLK_CONTAINER(e, struct dlk_redis_news, turns);
  const struct dlk_conf *conf = n->all->conf;
  dlk_net_fixed_init(&n->at, conf, n->next % conf->host_count,
                     DLK_REDIS_SENTINEL_PORT, n->all->tls);
  n->next++;
  who->located(who, &n->at.address, NULL);
}

static void nothing(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  (void)e, (void)who;
}

void dlk_redis_news_init(struct dlk_redis_news *n,
                         const struct dlk_redis_sentinels *all) {
  n->all = all;
  n->turns = (struct dlk_net_endpoint){.role = DLK_REDIS_SENTINEL_ROLE,
                                       .locate = locate,
                                       .settle = nothing,
                                       .forget = nothing};
  dlk_redis_conn_init(&n->conn, all->host, all->conf, &n->turns, &events, n);
  n->conn.net.pause = DLK_REDIS_SENTINEL_PAUSE;
  n->hello.encode = encode;
  n->hello.done = done;
}

void dlk_redis_news_want(struct dlk_redis_news *n, bool wanted) {
  if (n->conn.net.wanted == wanted)
    return;
  n->conn.net.wanted = wanted;
  if (wanted) {
    dlk_net_conn_wake(&n->conn.net);
  } else {
    dlk_net_wake_set(n->wake, DLK_NET_WAKE_NEWS, -1);
    dlk_net_conn_off(&n->conn.net);
  }
}
