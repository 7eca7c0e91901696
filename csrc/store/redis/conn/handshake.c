/* Each command is a numbered step, and the first fatal reply wins. CLIENT, INFO
 * and CONFIG may be refused (ACL, rename-command). */
#include "store/redis/conn/handshake.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/conn/durable.h"
#include "store/redis/wire/errors.h"

#define LAG_MAX 10

enum step {
  AUTH,
  SELECT,
  ID,
  SETNAME,
  INFO,
  ROLE,
  POLICY,
  APPEND,
  WAIT,
  MULTI,
  EXEC,
  SUBSCRIBE
};

static void words(struct dlk_redis_handshake *g, struct dlk_buf *out,
                  unsigned step, const char *a, const char *b, const char *c) {
  g->steps[g->req.replies++] = (uint8_t)step;
  dlk_redis_put_words(out, a, b, c, NULL);
}

static void encode(struct dlk_redis_req *req, struct dlk_buf *out) {
  struct dlk_redis_handshake *g =
      DLK_CONTAINER(req, struct dlk_redis_handshake, req);
  g->auth.username = g->conf->username;
  g->auth.password = g->conf->password;
  g->auth.secret = g->conf->secret;
  req->secret = dlk_redis_auth_put(&g->auth, out);
  req->replies = req->secret ? 1 : 0;
  g->steps[0] = AUTH;
  if (g->changes || !g->subscriber)
    words(g, out, ROLE, "INFO", "replication", NULL);
  words(g, out, INFO, "INFO", "server", NULL);
  if (g->subscriber) {
    words(g, out, SETNAME, "CLIENT", "SETNAME", "dlock-messages");
    words(g, out, SUBSCRIBE, "SUBSCRIBE", g->channel, NULL);
    return;
  }
  if (g->db) {
    char db[16];
    snprintf(db, sizeof db, "%u", g->db);
    words(g, out, SELECT, "SELECT", db, NULL);
  }
  words(g, out, ID, "CLIENT", "ID", NULL);
  words(g, out, SETNAME, "CLIENT", "SETNAME", "dlock");
  words(g, out, POLICY, "CONFIG", "GET", "maxmemory-policy");
  if (g->votes)
    words(g, out, APPEND, "CONFIG", "GET", "append*");
  if (g->replicas > 0)
    words(g, out, WAIT, "WAIT", "0", "0");
  words(g, out, MULTI, "MULTI", NULL, NULL);
  words(g, out, EXEC, "EXEC", NULL, NULL);
}

static void info(const char *text, const char *name, char *out, size_t room) {
  const char *at = strstr(text, name);
  size_t n = 0;
  if (at)
    for (at += strlen(name); n < room - 1 && *at > ' ' && *at < 127; at++)
      out[n++] = *at;
  out[n] = '\0';
}

/* A Sentinel is told by its mode even if it refused a command. Valkey says
 * server_mode. */
static void judge_mode(struct dlk_redis_handshake *g, const redisReply *reply) {
  char mode[16];
  const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "";
  info(text, "redis_mode:", mode, sizeof mode);
  if (!mode[0])
    info(text, "server_mode:", mode, sizeof mode);
  if (g->cluster && mode[0] && strcmp(mode, "cluster") != 0)
    dlk_error_set(&g->err, DLK_INVALID,
                  "%s: it is no node of a cluster; use %s://", g->name.text,
                  g->tls ? "rediss" : "redis");
  else if (!g->cluster && strcmp(mode, "cluster") == 0 &&
           g->err.code != DLK_DENIED)
    dlk_error_set(&g->err, DLK_UNSUPPORTED, "%s: %s", g->name.text,
                  dlk_redis_fault_find("MOVED")->advice);
  if (strcmp(mode, "sentinel") != 0)
    return;
  g->stranger = false;
  dlk_error_set(&g->err, DLK_INVALID,
                "%s: what answers there is a Sentinel; use "
                "%s+sentinel://h1,h2,h3/name, with the name that the Sentinels "
                "have for the primary",
                g->name.text, g->tls ? "rediss" : "redis");
}

static void not_redis(struct dlk_redis_handshake *g, const char *text) {
  char said[DLK_REDIS_QUOTE_MAX];
  dlk_error_set(&g->err, DLK_INVALID,
                "%s answers INFO with \"%.80s\", so it is not Redis, or a "
                "proxy that dlock cannot use; check host and port, or use the "
                "server itself",
                g->name.text, dlk_redis_fault_quote(text, said));
}

static void judge_info(struct dlk_redis_handshake *g, const redisReply *reply) {
  char version[24];
  const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "";
  info(text, "redis_version:", version, sizeof version);
  info(text, "run_id:", g->run_id, sizeof g->run_id);
  char uptime[24];
  info(text, "uptime_in_seconds:", uptime, sizeof uptime);
  g->uptime = strtoll(uptime, NULL, 10);
  int minor = 0;
  if (sscanf(version, "%d.%d", &g->major, &minor) != 2) {
    not_redis(g, text);
  } else if (g->major < 6 || (g->major == 6 && minor < 2)) {
    dlk_error_set(&g->err, DLK_UNSUPPORTED,
                  "%s: the server is Redis %s; 6.2 or newer is needed",
                  g->name.text, version);
  }
}

/* Counts those that follow. WAIT 0 would count those that confirmed all writes,
 * which they do once a second. A hanging one counts for LAG_MAX seconds. */
static int64_t count_replicas(const char *text) {
  int64_t count = 0;
  for (const char *at = strstr(text, "state=online"); at;
       at = strstr(at + 1, "state=online")) {
    const char *end = at + strcspn(at, "\r\n"), *lag = strstr(at, "lag=");
    if (lag && lag < end && strtol(lag + 4, NULL, 10) <= LAG_MAX)
      count++;
  }
  return count;
}

/* A named server may be not yet promoted, or demoted. A replica gets no PUBLISH
 * of the primary's scripts. */
static void judge_role(struct dlk_redis_handshake *g, const redisReply *reply) {
  char role[16];
  const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "";
  info(text, "role:", role, sizeof role);
  bool counts = role[0] && !(g->cluster && strcmp(role, "slave") == 0);
  g->have = counts ? count_replicas(text) : -1;
  g->listed = dlk_redis_durable_listed(text);
  if (g->all && g->listed < 0)
    dlk_error_set(&g->err, DLK_UNSUPPORTED,
                  "%s: wait_replicas = \"all\" needs INFO replication, which "
                  "lists no replicas there; use a number",
                  g->name.text);
  if (g->votes && strcmp(role, "slave") == 0)
    dlk_error_set(&g->err, DLK_INVALID,
                  "%s: it is a replica; a Redlock's nodes are primaries that "
                  "know nothing of each other",
                  g->name.text);
  else if (g->changes && strcmp(role, "slave") == 0)
    dlk_error_set(&g->err, DLK_UNAVAILABLE,
                  "%s: it is named as the primary and is a replica; "
                  "a failover is under way, or a Sentinel is wrong",
                  g->name.text);
  else if (counts && strcmp(role, "slave") == 0 &&
           strstr(text, "slave_read_only:1"))
    dlk_error_set(&g->err, DLK_UNAVAILABLE, "%s: %s", g->name.text,
                  dlk_redis_fault_find("READONLY")->advice);
}

static const char *step_name(unsigned step) {
  static const char *const names[] = {
      "AUTH",   "SELECT", "CLIENT ID", "CLIENT SETNAME", "INFO", "INFO",
      "CONFIG", "CONFIG", "WAIT",      "MULTI",          "EXEC", "SUBSCRIBE"};
  return names[step];
}

static void refused(struct dlk_redis_handshake *g, unsigned step,
                    const char *text) {
  const struct dlk_redis_fault *f = dlk_redis_fault_find(text);
  bool denial = dlk_redis_fault_is_denial(text);
  if (step == ID)
    g->link->may_linger = true;
  if (denial && step == INFO && !g->votes)
    return;
  if (step == SETNAME || step == POLICY || step == APPEND || step == ID ||
      (step == ROLE && !g->all))
    return;
  if (step == SELECT && f->action == DLK_REDIS_FAIL && !denial &&
      f->code == DLK_UNAVAILABLE) {
    dlk_error_set(&g->err, DLK_INVALID, "%s: there is no database %u",
                  g->name.text, g->db);
    return;
  }
  /* A replica that names the primaries. */
  if (step == WAIT && g->cluster && strstr(text, "be used with replica"))
    return;
  /* A server that refuses some writes (OOM, MISCONF) may still release. */
  if (step == EXEC && f->code == DLK_UNAVAILABLE &&
      (f->action == DLK_REDIS_FAIL || f->action == DLK_REDIS_LATER))
    return;
  if (step == INFO && f->action == DLK_REDIS_FAIL &&
      f->code == DLK_UNAVAILABLE) {
    not_redis(g, text);
    return;
  }
  g->stranger = f->code == DLK_DENIED && !denial;
  char said[DLK_REDIS_QUOTE_MAX];
  if (step == WAIT && f->code != DLK_DENIED && f->action == DLK_REDIS_FAIL)
    dlk_error_set(&g->err, DLK_UNSUPPORTED,
                  "%s: wait_replicas needs WAIT, which is not known there "
                  "(%.60s); leave the option out",
                  g->name.text, dlk_redis_fault_quote(text, said));
  else if (step == AUTH)
    dlk_redis_fault_unquoted(&g->err, text, g->name.text, step_name(step));
  else if (f->code == DLK_DENIED && denial)
    dlk_error_set(&g->err, DLK_DENIED,
                  "%s refuses %s; change the user's ACL, see docs/security.md",
                  g->name.text, step_name(step));
  else
    dlk_redis_fault_error(&g->err, text, g->name.text);
}

/* In an answer of CONFIG GET. */
static bool is_set(const redisReply *list, const char *name,
                   const char *value) {
  for (size_t i = 0; i + 1 < list->elements; i += 2)
    if (list->element[i]->type == REDIS_REPLY_STRING &&
        strcmp(list->element[i]->str, name) == 0)
      return list->element[i + 1]->type == REDIS_REPLY_STRING &&
             strcmp(list->element[i + 1]->str, value) == 0;
  return false;
}

static void each(struct dlk_redis_req *req, unsigned index,
                 const redisReply *reply) {
  struct dlk_redis_handshake *g =
      DLK_CONTAINER(req, struct dlk_redis_handshake, req);
  unsigned step = g->steps[index];
  if (step == INFO)
    judge_mode(g, reply);
  if (g->err.code != DLK_OK)
    return;
  if (reply->type == REDIS_REPLY_ERROR) {
    refused(g, step, reply->str);
  } else if (step == INFO) {
    judge_info(g, reply);
  } else if (step == ROLE) {
    judge_role(g, reply);
  } else if (step == ID && reply->type == REDIS_REPLY_INTEGER) {
    g->id = reply->integer;
  } else if (step == APPEND && reply->type == REDIS_REPLY_ARRAY) {
    g->keeps = is_set(reply, "appendonly", "yes") &&
               is_set(reply, "appendfsync", "always");
  } else if (step == POLICY && reply->type == REDIS_REPLY_ARRAY &&
             reply->elements == 2 &&
             reply->element[1]->type == REDIS_REPLY_STRING) {
    snprintf(g->policy, sizeof g->policy, "%s", reply->element[1]->str);
  }
}

void dlk_redis_handshake_start(struct dlk_redis_handshake *g,
                               const struct dlk_redis_conn *c) {
  g->req.encode = encode;
  g->req.each = each;
  g->err.code = DLK_OK;
  g->name = dlk_net_conn_name(&c->net);
  g->tls = c->net.at->tls != NULL;
  g->stranger = false;
  g->id = -1;
  g->major = 0;
  g->have = g->listed = -1;
  g->run_id[0] = g->policy[0] = '\0';
  g->uptime = 0;
  g->keeps = false;
}
