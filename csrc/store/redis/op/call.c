/* Between the operations and the link: scripts by name and shape, and the
 * server's refusals.
 * - NOSCRIPT, or no right to call by name: the text is sent. Nothing ran
 *   before.
 * - A script that a right was refused: probe.lua names the right. The script
 *   may have written, so the call can no longer be withdrawn.
 * - A server that cannot serve now: the link retreats, and the request counts
 *   as not executed. */
#include "store/redis/op/call.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

/* Behind a script's own arguments: for how long the counter stays; and whether
 * it is lifted, where the script may raise it; or the server's process, which
 * a node's counter belongs to. */
enum { NO_FENCE, FENCE_STAYS, FENCE_RISES, FENCE_VOTES };

static const struct {
  char parts[9]; /* of KEYS; '-' is the lock itself */
  uint8_t args, fence;
  bool durable; /* what it gives counts only when replicas have it */
} shapes[DLK_REDIS_SCRIPTS] = {
    [DLK_REDIS_TAKE] = {"-f", 2, NO_FENCE, true},
    [DLK_REDIS_TRY] = {"-fqwhpin", 4, FENCE_RISES, true},
    [DLK_REDIS_JOIN] = {"-fqwhpin", 8, FENCE_RISES, true},
    [DLK_REDIS_REFRESH] = {"-fqwhpin", 8, FENCE_RISES, true},
    [DLK_REDIS_LEAVE] = {"-fqwhpin", 2, FENCE_RISES, false},
    [DLK_REDIS_RELEASE] = {"-q", 1, NO_FENCE, false},
    [DLK_REDIS_RENEW] = {"-fhpi", 5, FENCE_STAYS, true},
    [DLK_REDIS_PROBE] = {"-fqwhp", 1, NO_FENCE, false},
    [DLK_REDIS_INSPECT] = {"-fqwhpi", 0, NO_FENCE, false},
    [DLK_REDIS_LIST] = {"", 4, NO_FENCE, false},
    [DLK_REDIS_BREAK] = {"-fqwhpin", 0, FENCE_RISES, false},
    [DLK_REDIS_REVOKE] = {"-fqwhpin", 0, NO_FENCE, false},
    [DLK_REDIS_GUARD] = {"-hpi", 1, NO_FENCE, false},
    [DLK_REDIS_CHANGE] = {"-phin", 3, NO_FENCE, false},
    [DLK_REDIS_ATTACH] = {"-fhpi", 6, FENCE_STAYS, true},
    [DLK_REDIS_PUBLISH] = {"-hpi", 4, NO_FENCE, false},
    [DLK_REDIS_DOWNGRADE] = {"-fqwhpin", 3, FENCE_RISES, false},
    [DLK_REDIS_VOTE] = {"-vin", 5, FENCE_VOTES, false},
    [DLK_REDIS_RAISE] = {"-vhpin", 5, FENCE_VOTES, false},
};

static const struct dlk_redis_script_source *const forms[] = {
    [DLK_REDIS_PLAIN] = dlk_redis_scripts,
    [DLK_REDIS_CLASSIC] = dlk_redis_cluster_scripts,
    [DLK_REDIS_SHARDED] = dlk_redis_shard_scripts};

/* Of a script with only the lock as its key, and the same arguments. */
static int narrow(const struct dlk_redis_call *c) {
  return !c->req.narrow                 ? c->script
         : c->script == DLK_REDIS_RENEW ? DLK_REDIS_RENEW1
                                        : DLK_REDIS_RELEASE1;
}

static void put_fence(struct dlk_redis_call *c, uint8_t fence,
                      struct dlk_buf *out) {
  if (fence == NO_FENCE)
    return;
  struct dlk_redis_fences *f = &c->store->fences;
  dlk_redis_put_int(out, dlk_to_ms(dlk_redis_fence_memory(f, c->holds)));
  if (fence == FENCE_STAYS)
    return;
  if (fence == FENCE_VOTES) {
    dlk_redis_put_text(out, c->store->link->run_id);
    return;
  }
  c->lifts = !dlk_redis_fence_is_lifted(f, c->key, c->key_len);
  dlk_redis_put_int(out, c->lifts);
}

/* What the answer says of the counter; nothing if replicas did not confirm:
 * another server may be the primary (fence.c). */
static void note_fence(struct dlk_redis_call *c, const redisReply *reply) {
  if (c->store->replicas > 0 && (c->scarce || !c->req.durable))
    return;
  if (c->connection != c->store->link->connections)
    return; /* a node may have said it that serves the slot no more */
  bool got = strcmp(dlk_redis_word(reply), "got") == 0;
  bool left = c->script == DLK_REDIS_LEAVE && c->lifts &&
              dlk_redis_int(reply, 2, 0) == 1;
  struct dlk_redis_fences *f = &c->store->fences;
  if (got)
    dlk_redis_fence_stays(f, c->key, c->key_len, c->holds, c->req.sent);
  else if (left)
    dlk_redis_fence_lifted(f, c->key, c->key_len);
}

/* ---- the trace ---- */

/* The length of what comes at *p, after its kind: "*2\r\n" or "$3\r\n". */
static size_t length_at(const char **p) {
  char *end;
  size_t n = strtoul(*p + 1, &end, 10);
  *p = end + 2;
  return n;
}

/* The commands in what was written, by their first words: an argument may be a
 * token. */
static void commands(const char *p, const char *end, struct dlk_buf *out) {
  while (p < end) {
    size_t words = length_at(&p);
    for (size_t i = 0; i < words; i++) {
      size_t n = length_at(&p);
      if (i == 0)
        dlk_buf_addf(out, "%s%.*s", out->len ? " " : "", (int)n, p);
      p += n + 2;
    }
  }
}

static const char *script_of(const struct dlk_redis_call *c) {
  return c->script >= 0 ? dlk_redis_scripts[c->script].name : "";
}

static void trace_sent(const struct dlk_redis_call *c,
                       const struct dlk_buf *out, size_t from) {
  struct dlk_buf words = {0};
  if (!out->failed) {
    commands(out->data + from, out->data + out->len, &words);
    const char *script = script_of(c);
    dlk_trace_line(dlk_redis_now(c->store), "redis", "send", c->key, c->key_len,
                   "%.*s%s%s", (int)words.len, words.data ? words.data : "",
                   *script ? " " : "", script);
  }
  dlk_buf_free(&words);
}

/* Of a refusal the first word, the server's code. */
static void trace_answer(const struct dlk_redis_call *c,
                         const struct dlk_redis_answer *a) {
  static const char *const outcomes[] = {[DLK_REDIS_ANSWERED] = "good",
                                         [DLK_REDIS_UNSENT] = "not sent",
                                         [DLK_REDIS_UNKNOWN] = "none"};
  int64_t now = dlk_redis_now(c->store);
  int64_t sent = a->outcome == DLK_REDIS_UNSENT ? now : c->req.sent;
  const char *word = a->refusal ? a->refusal : outcomes[a->outcome];
  const char *script = script_of(c);
  dlk_trace_line(now, "redis", "answer", c->key, c->key_len,
                 "%s%s%.*s, after %s ms", script, *script ? " " : "",
                 (int)strcspn(word, a->refusal ? " \r\n" : ""), word,
                 dlk_trace_ms(now - sent).text);
}

/* ---- to the link and back ---- */

static void put_channel(const struct dlk_redis_call *c, unsigned slot,
                        struct dlk_buf *out) {
  char channel[DLK_REDIS_CHANNEL];
  bool sharded = c->req.form == DLK_REDIS_SHARDED;
  if (sharded)
    dlk_redis_channel(channel, c->store->channel, slot);
  dlk_redis_put_text(out, sharded ? channel : c->store->channel);
}

void dlk_redis_call_put_channel(const struct dlk_redis_call *c,
                                struct dlk_buf *out) {
  put_channel(c, (unsigned)c->req.slot, out);
}

static void put_probe(struct dlk_redis_call *c, struct dlk_buf *out) {
  const struct dlk_redis_script_source *source =
      &forms[c->req.form][DLK_REDIS_PROBE];
  struct dlk_redis *s = c->store;
  struct dlk_redis_name name;
  uint64_t bits[2];
  char nobody[64];
  s->host->random(s->host, bits, sizeof bits);
  int len = snprintf(nobody, sizeof nobody,
                     DLK_REDIS_RESERVED "probe:%016" PRIx64 "%016" PRIx64,
                     bits[0], bits[1]);
  (void)dlk_redis_name_make(&name, s->conf.prefix, nobody, (size_t)len);
  c->req.replies = 1;
  c->req.durable = false;
  dlk_redis_put_array(out, 10);
  dlk_redis_put(out, "EVAL", 4);
  dlk_redis_put(out, source->text, source->len);
  dlk_redis_put_int(out, 6);
  for (const char *part = shapes[DLK_REDIS_PROBE].parts; *part; part++)
    dlk_redis_put_name(out, &name,
                       *part == '-' ? DLK_REDIS_LOCK
                                    : (enum dlk_redis_part) * part);
  put_channel(c, dlk_redis_slot(nobody, (size_t)len), out);
}

static void put_request(struct dlk_redis_call *c, struct dlk_buf *out) {
  c->lifts = false;
  c->req.durable = c->script >= 0 && shapes[c->script].durable;
  c->req.replies = 1;
  if (c->script < 0) {
    c->args(c, out);
    return;
  }
  if (c->script == DLK_REDIS_TAKE &&
      !dlk_redis_fence_is_plain(&c->store->fences, c->key, c->key_len, c->holds,
                                c->req.sent))
    c->script = DLK_REDIS_TRY;
  if (c->script == DLK_REDIS_RENEW && c->store->max_ttl > 0)
    c->script = DLK_REDIS_RAISE;
  const char *parts = c->req.narrow ? "-" : shapes[c->script].parts;
  size_t keys = strlen(parts);
  const struct dlk_redis_script_source *source = forms[c->req.form] + narrow(c);
  bool tail = c->tail &&
              (c->script == DLK_REDIS_TRY || c->script == DLK_REDIS_JOIN ||
               c->script == DLK_REDIS_REFRESH || c->script == DLK_REDIS_VOTE);
  uint8_t fence = shapes[c->script].fence;
  unsigned behind = fence == FENCE_VOTES ? 2 : fence;
  dlk_redis_put_array(out, 3 + keys + shapes[c->script].args + behind +
                               c->more + tail);
  uint64_t connection = c->store->link->connections;
  c->connection = connection;
  uint32_t bit = UINT32_C(1) << c->script;
  if (c->store->texts_on != connection)
    c->store->texts = 0;
  c->store->texts_on = connection;
  c->by_text = c->by_text || c->store->names_barred_on == connection ||
               (c->in_order && (c->req.form || !(c->store->texts & bit)));
  if (c->by_text) {
    c->store->texts |= bit;
    dlk_redis_put(out, "EVAL", 4);
    dlk_redis_put(out, source->text, source->len);
  } else {
    dlk_redis_put(out, "EVALSHA", 7);
    dlk_redis_put(out, source->sha, DLK_REDIS_SHA);
  }
  dlk_redis_put_int(out, (int64_t)keys);
  struct dlk_redis_name name;
  if (keys > 0)
    dlk_redis_names_of(&c->store->names, &name, c->key, c->key_len,
                       c->req.slot);
  for (; *parts; parts++)
    dlk_redis_put_name(out, &name,
                       *parts == '-' ? DLK_REDIS_LOCK
                                     : (enum dlk_redis_part) * parts);
  if (c->args)
    c->args(c, out);
  put_fence(c, fence, out);
  if (tail)
    dlk_redis_put(out, c->tail, c->tail_len);
}

static void encode(struct dlk_redis_req *req, struct dlk_buf *out) {
  struct dlk_redis_call *c = DLK_CONTAINER(req, struct dlk_redis_call, req);
  size_t from = out->len;
  if (c->probes)
    put_probe(c, out);
  else
    put_request(c, out);
  if (DLK_TRACING)
    trace_sent(c, out, from);
}

/* What the server's refusal means, for people. */
static void explain(struct dlk_redis_call *c, const char *text,
                    struct dlk_error *err) {
  const char *shown = c->store->conf.shown, *prefix = c->store->conf.prefix;
  if (dlk_redis_fault_is_of_keys(text))
    dlk_error_set(err, DLK_DENIED,
                  "%s refuses the names of these locks; give the user's ACL "
                  "~%s* and ~~dlock:{??????}:?:%s*, see docs/security.md",
                  shown, prefix, prefix);
  else
    dlk_redis_fault_error(err, text, shown);
}

static void judge(struct dlk_redis_call *c, const struct dlk_redis_answer *a,
                  struct dlk_redis_result *r, struct dlk_error *err) {
  r->reply = a->reply;
  r->err = a->err;
  r->begun = r->passes = false;
  c->scarce = a->scarce;
  c->have = a->have;
  c->wanted = a->wanted;
  if (a->outcome == DLK_REDIS_UNKNOWN) {
    r->verdict = DLK_REDIS_UNSURE;
  } else if (a->outcome == DLK_REDIS_UNSENT) {
    /* A refusal that was found while connecting stays a refusal. */
    r->verdict = a->err->code == DLK_UNAVAILABLE ? DLK_REDIS_NOT_DONE
                                                 : DLK_REDIS_REFUSED;
  } else if (a->refusal) {
    const struct dlk_redis_fault *f = dlk_redis_fault_find(a->refusal);
    explain(c, a->refusal, err);
    r->err = err;
    r->verdict = DLK_REDIS_REFUSED;
    r->begun = c->script >= 0 && dlk_redis_fault_may_be_late(f);
    r->passes = f->action == DLK_REDIS_LATER;
    if (f->action == DLK_REDIS_RETRY || f->action == DLK_REDIS_RECONNECT) {
      r->verdict = DLK_REDIS_NOT_DONE;
      c->store->link->retreat(c->store->link, err);
    }
  } else {
    r->verdict = DLK_REDIS_GOOD;
  }
}

/* Whether a script's name was refused where its text may not be. A user without
 * EVALSHA is not asked again. */
static bool needs_text(struct dlk_redis_call *c, const char *refusal) {
  if (!refusal || c->by_text || c->script < 0)
    return false;
  if (dlk_redis_fault_bars_names(refusal)) {
    c->store->names_barred_on = c->store->link->connections;
    return true;
  }
  return dlk_redis_fault_find(refusal)->action == DLK_REDIS_SEND_TEXT;
}

/* The answer to a probe, which may be none. */
static void probed(struct dlk_redis_call *c, const struct dlk_redis_answer *a) {
  struct dlk_error err;
  struct dlk_redis_result r = {
      .verdict = DLK_REDIS_REFUSED, .err = &err, .begun = true};
  bool named = a->reply && a->reply->type == REDIS_REPLY_STRING &&
               strcmp(a->reply->str, "OK") != 0;
  const char *text = named        ? a->reply->str
                     : a->refusal ? a->refusal
                                  : "a command of a script";
  if (dlk_redis_fault_is_of_keys(text))
    explain(c, text, &err);
  else
    dlk_error_set(&err, DLK_DENIED,
                  "%s refuses %.150s; change the user's ACL, see "
                  "docs/security.md",
                  c->store->conf.shown, text);
  c->probes = c->busy = false;
  c->answer(c, &r);
}

static void done(struct dlk_redis_req *req, const struct dlk_redis_answer *a) {
  struct dlk_redis_call *c = DLK_CONTAINER(req, struct dlk_redis_call, req);
  if (DLK_TRACING)
    trace_answer(c, a);
  if (c->probes) {
    probed(c, a);
    return;
  }
  if (c->script >= 0 && a->refusal && dlk_redis_fault_is_nameless(a->refusal)) {
    c->probes = true;
    c->store->link->submit(c->store->link, req);
    return;
  }
  if (needs_text(c, a->refusal)) {
    c->by_text = true;
    c->store->link->submit(c->store->link, req);
    return;
  }
  struct dlk_error err;
  struct dlk_redis_result r;
  judge(c, a, &r, &err);
  c->busy = false;
  if (r.verdict == DLK_REDIS_GOOD && c->script >= 0)
    note_fence(c, r.reply);
  c->answer(c, &r);
}

bool dlk_redis_call_key(struct dlk_redis_call *call, const char *key,
                        size_t len) {
  call->key = key;
  call->key_len = len;
  call->req.slot = dlk_redis_names_slot(&call->store->names, key, len);
  return call->req.slot >= 0;
}

void dlk_redis_call_send(struct dlk_redis_call *call, int script) {
  call->script = (int8_t)script;
  call->req.encode = encode;
  call->req.done = done;
  call->by_text = false;
  call->busy = true;
  call->store->link->submit(call->store->link, &call->req);
}

bool dlk_redis_call_withdraw(struct dlk_redis_call *call) {
  if (call->probes ||
      !call->store->link->withdraw(call->store->link, &call->req))
    return false;
  call->busy = false;
  return true;
}
