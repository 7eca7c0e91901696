/* A Sentinel is asked for the epoch and for the address in one write. The first
 * may be refused (a user's rights), the second only together with a reason that
 * the user is told. */
#include "store/redis/conn/witness.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/wire/errors.h"

/* ---- any connection to one ---- */

void dlk_redis_sentinel_auth(const struct dlk_redis_sentinels *all,
                             struct dlk_redis_req *r, struct dlk_buf *out) {
  struct dlk_redis_auth auth = {.username = all->username,
                                .secret = all->secret};
  r->secret = dlk_redis_auth_put(&auth, out);
  r->replies = r->secret ? 2 : 1;
}

/* What its refusal of that request means to the user. */
static void explain(const struct dlk_redis_sentinels *all,
                    const struct dlk_net_address *at,
                    const struct dlk_redis_req *r, const char *text,
                    struct dlk_error *err) {
  char quote[120] = "";
  struct dlk_net_server_text server =
      dlk_net_server_text(all->conf->shown, DLK_REDIS_SENTINEL_ROLE, at);
  const char *name = server.text;
  if (!r->secret)
    snprintf(quote, sizeof quote, " (%.100s)", text);
  struct dlk_error said;
  dlk_redis_fault_error(&said, text, name);
  if (strncmp(text, "NOPERM", 6) == 0)
    dlk_error_set(err, DLK_DENIED,
                  "%s: its user needs the rights in docs/security.md%s", name,
                  quote);
  else if (said.code == DLK_DENIED)
    dlk_error_set(err, DLK_DENIED,
                  "%s refuses us%s; check sentinel_username and "
                  "sentinel_password, which are not those of Redis",
                  name, quote);
  else if (strstr(text, "unknown command"))
    dlk_error_set(err, DLK_INVALID,
                  "%s is no Sentinel; check host and port (26379 as a rule)",
                  name);
  else if (r->secret)
    dlk_redis_fault_unquoted(err, text, name, "AUTH");
  else
    *err = said;
}

bool dlk_redis_sentinel_greeted(const struct dlk_redis_sentinels *all,
                                struct dlk_redis_conn *c,
                                const struct dlk_net_address *at,
                                const struct dlk_redis_req *r,
                                const struct dlk_redis_answer *a) {
  struct dlk_error why;
  if (a->outcome != DLK_REDIS_ANSWERED)
    return false;
  if (a->refusal) {
    explain(all, at, r, a->refusal, &why);
    dlk_net_conn_refuse(&c->net, &why);
    return false;
  }
  dlk_net_conn_ready(&c->net);
  dlk_redis_conn_flush(c);
  return true;
}

/* ---- one that is asked ---- */

struct dlk_net_server_text
dlk_redis_witness_name(const struct dlk_redis_witness *w) {
  return dlk_net_server_text(w->all->conf->shown, DLK_REDIS_SENTINEL_ROLE,
                             &w->at.address);
}

const char *dlk_redis_witness_why(const struct dlk_redis_witness *w) {
  struct dlk_net_server_text name = dlk_redis_witness_name(w);
  const char *at = strstr(w->why.text, name.text);
  const char *behind = at ? at + strlen(name.text) : "";
  return strncmp(behind, ": ", 2) == 0 ? behind + 2 : w->why.text;
}

static void encode_hello(struct dlk_redis_req *r, struct dlk_buf *out) {
  struct dlk_redis_witness *w =
      DLK_CONTAINER(r, struct dlk_redis_witness, hello);
  dlk_redis_sentinel_auth(w->all, r, out);
  dlk_redis_put_array(out, 1);
  dlk_redis_put_text(out, "PING");
}

static void hello_done(struct dlk_redis_req *r,
                       const struct dlk_redis_answer *a) {
  struct dlk_redis_witness *w =
      DLK_CONTAINER(r, struct dlk_redis_witness, hello);
  (void)dlk_redis_sentinel_greeted(w->all, &w->conn, &w->at.address, r, a);
}

static void encode_ask(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct dlk_redis_witness *w =
      DLK_CONTAINER(r, struct dlk_redis_witness, ask);
  static const char *const words[] = {"MASTER", "GET-MASTER-ADDR-BY-NAME"};
  r->replies = 2;
  for (int i = 0; i < 2; i++) {
    dlk_redis_put_array(out, 3);
    dlk_redis_put_text(out, "SENTINEL");
    dlk_redis_put_text(out, words[i]);
    dlk_redis_put_text(out, w->all->master);
  }
}

static void makes_no_sense(struct dlk_redis_witness *w) {
  w->opinion.said = DLK_REDIS_SAID_NO;
  dlk_error_set(&w->why, DLK_UNAVAILABLE, "%s answers what is no address",
                dlk_redis_witness_name(w).text);
}

static void each(struct dlk_redis_req *r, unsigned index,
                 const redisReply *reply) {
  struct dlk_redis_witness *w = DLK_CONTAINER(r, struct dlk_redis_witness, ask);
  if (index == 0) {
    dlk_redis_opinion_view(&w->opinion, reply);
  } else if (reply->type == REDIS_REPLY_ERROR) {
    w->opinion.said = DLK_REDIS_SAID_NO;
    explain(w->all, &w->at.address, r, reply->str, &w->why);
  } else {
    dlk_redis_opinion_place(&w->opinion, reply);
    if (w->opinion.said == DLK_REDIS_SAID_NOTHING)
      makes_no_sense(w);
  }
}

static void ask_done(struct dlk_redis_req *r,
                     const struct dlk_redis_answer *a) {
  struct dlk_redis_witness *w = DLK_CONTAINER(r, struct dlk_redis_witness, ask);
  w->asked = false;
  if (a->outcome != DLK_REDIS_ANSWERED) {
    bool no = a->err->code == DLK_DENIED || a->err->code == DLK_INVALID;
    w->opinion = (struct dlk_redis_opinion){
        .said = no ? DLK_REDIS_SAID_NO : DLK_REDIS_SAID_NOTHING};
    w->why = *a->err;
  }
  w->answered(w);
}

void dlk_redis_witness_ask(struct dlk_redis_witness *w) {
  w->opinion.said = DLK_REDIS_SAID_NOTHING; /* the rest: see agree.c */
  w->asked = true;
  dlk_redis_conn_submit(&w->conn, &w->ask);
  dlk_redis_conn_flush(&w->conn);
}

/* ---- its connection ---- */

static struct dlk_redis_req *hello(struct dlk_redis_conn *c) {
  struct dlk_redis_witness *w = c->arg;
  return &w->hello;
}

static void gone(void *arg) {
  struct dlk_redis_conn *c = arg;
  const struct dlk_redis_witness *w = c->arg;
  w->all->gone(w->all->gone_arg);
}

static const struct dlk_redis_conn_events events = {.handshake = hello,
                                                    .gone = gone};

void dlk_redis_witness_init(struct dlk_redis_witness *w,
                            const struct dlk_redis_sentinels *all,
                            size_t host) {
  w->all = all;
  dlk_net_fixed_init(&w->at, all->conf, host, DLK_REDIS_SENTINEL_PORT,
                     all->tls);
  w->at.endpoint.role = DLK_REDIS_SENTINEL_ROLE;
  dlk_redis_conn_init(&w->conn, all->host, all->conf, &w->at.endpoint, &events,
                      w);
  w->conn.net.pause = DLK_REDIS_SENTINEL_PAUSE;
  w->hello.encode = encode_hello;
  w->hello.done = hello_done;
  w->ask.encode = encode_ask;
  w->ask.each = each;
  w->ask.done = ask_done;
  dlk_list_init(&w->ask.entry);
}
