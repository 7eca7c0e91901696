/* A Consul of one process: what stands for conn/http.c under the driver, and
 * the servers behind it (fake_servers.h). A session ends as soon as it may: a
 * TTL after its last renewal. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_servers.h"
#include "plain.h"
#include "store/session/consul/link.h"

#define KEYS 200
#define ITEMS 512
#define SESSIONS 256
#define CHANGES 8192
#define LINKS 8
#define NAME 200
#define VALUE 700

struct key {
  char name[NAME], value[VALUE], session[40]; /* value: as it came */
  int64_t created, modified;                  /* created 0: there is none */
  int64_t barred;                             /* lock-delay: until then */
};

struct session {
  char id[40]; /* "": there is none */
  int64_t ttl, ends;
};

/* Without a call: nobody hears of it. A query's answer may be under way. */
struct item {
  struct dlk_http_call *call;
  char path[300];
  bool puts, refused;
  struct dlk_buf body;
  long status; /* 0: it is not answered yet */
  int64_t index;
  json_t *said;
};

struct change {
  int64_t index;
  char name[NAME];
};

static struct key keys[KEYS], before[DLK_CONSUL_OPS];
static size_t touched[DLK_CONSUL_OPS], touches; /* in this transaction */
static struct session sessions[SESSIONS];
static struct item items[ITEMS];
static struct change changes[CHANGES];
static struct dlk_http *links[LINKS];
static size_t item_count, change_count;
static int64_t last_index = 1, last_session;
static bool down;
static struct dlk_host *host;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "consul_server: %s\n", what);
  abort();
}

static struct item take_item(size_t at) {
  struct item taken = items[at];
  memmove(&items[at], &items[at + 1], (--item_count - at) * sizeof taken);
  return taken;
}

static void free_item(struct item *i) {
  dlk_buf_free(&i->body);
  json_decref(i->said);
}

/* The call's owner is told. status 0: there was no answer. */
static void answer(struct dlk_http_call *c, long status, int64_t index,
                   json_t *said) {
  char *text = said ? json_dumps(said, JSON_ENCODE_ANY) : NULL;
  json_decref(said);
  if (c && c->on) {
    c->on = NULL;
    c->status = status;
    c->index = index;
    c->date_ms = host->now(host) / DLK_SEC * 1000;
    if (text)
      dlk_buf_add(&c->in, text, strlen(text));
    snprintf(c->text, sizeof c->text, "%s", status ? "" : "cut");
    c->told(c);
  }
  free(text);
}

/* ---- keys ---- */

static void changed(const char *name) {
  if (change_count == CHANGES)
    die("too many changes");
  struct change *c = &changes[change_count++];
  c->index = last_index;
  snprintf(c->name, sizeof c->name, "%s", name);
}

static struct key *find(const char *name) {
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created && strcmp(keys[i].name, name) == 0)
      return &keys[i];
  return NULL;
}

/* About to be written. */
static struct key *touch(struct key *k) {
  if (touches == DLK_CONSUL_OPS)
    die("too many writes");
  touched[touches] = (size_t)(k - keys);
  before[touches++] = *k;
  return k;
}

static struct session *session_of(const char *id) {
  for (size_t i = 0; *id && i < SESSIONS; i++)
    if (strcmp(sessions[i].id, id) == 0)
      return &sessions[i];
  return NULL;
}

static void end_session(struct session *s) {
  last_index++;
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created && strcmp(keys[i].session, s->id) == 0) {
      keys[i].session[0] = '\0';
      keys[i].modified = last_index;
      keys[i].barred = host->now(host) + s->ttl;
      changed(keys[i].name);
    }
  s->id[0] = '\0';
}

static void run_out(void) {
  for (size_t i = 0; i < SESSIONS && host; i++)
    if (sessions[i].id[0] && sessions[i].ends <= host->now(host))
      end_session(&sessions[i]);
}

static json_t *shown(const struct key *k, bool value) {
  return json_pack("{s:s, s:s, s:s?, s:I, s:I}", "Key", k->name, "Session",
                   k->session, "Value", value ? k->value : NULL, "CreateIndex",
                   (json_int_t)k->created, "ModifyIndex",
                   (json_int_t)k->modified);
}

static bool under(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* ---- transactions ---- */

static const char *text_of(const json_t *o, const char *name) {
  const char *text = json_string_value(json_object_get(o, name));
  return text ? text : "";
}

static const char *write_key(const char *name, const json_t *op, bool locks) {
  struct key *k = find(name);
  const char *session = text_of(op, "Session"), *value = text_of(op, "Value");
  if (locks && !session_of(session))
    return "invalid session";
  if (locks && k && k->session[0] && strcmp(k->session, session) != 0)
    return "lock is already held";
  if (locks && k && k->barred > host->now(host))
    return "lock is in its delay";
  for (size_t i = 0; !k && i < KEYS; i++)
    if (!keys[i].created) {
      k = touch(&keys[i]);
      *k = (struct key){.created = last_index + 1};
      snprintf(k->name, sizeof k->name, "%s", name);
    }
  if (!k || strlen(value) >= VALUE)
    die("too many keys, or too much data");
  if (k->created <= last_index)
    touch(k);
  k->modified = last_index + 1;
  snprintf(k->value, sizeof k->value, "%s", value);
  if (locks)
    snprintf(k->session, sizeof k->session, "%s", session);
  return NULL;
}

/* Why not; NULL: it is done. */
static const char *run_op(const json_t *op, json_t *results) {
  const char *verb = text_of(op, "Verb"), *name = text_of(op, "Key");
  const char *session = text_of(op, "Session"), *why = NULL;
  int64_t index = json_integer_value(json_object_get(op, "Index"));
  struct key *k = find(name);
  bool checks = strncmp(verb, "check-", 6) == 0, gets = !strcmp(verb, "get");
  if (strcmp(verb, "get-tree") == 0) {
    for (size_t i = 0; i < KEYS; i++)
      if (keys[i].created && under(keys[i].name, name))
        json_array_append_new(results,
                              json_pack("{s:o}", "KV", shown(&keys[i], true)));
    return NULL;
  }
  if (strncmp(verb, "delete", 6) == 0) {
    if (k && strcmp(verb, "delete-cas") == 0 && k->modified != index)
      return "index is stale";
    if (k)
      touch(k)->created = 0;
    return NULL;
  }
  if (strcmp(verb, "check-not-exists") == 0)
    return k ? "key exists" : NULL;
  if ((checks || gets) && !k)
    return "key doesn't exist";
  if (strcmp(verb, "check-index") == 0)
    why = k->modified == index ? NULL : "another index";
  else if (strcmp(verb, "check-session") == 0)
    why = strcmp(k->session, session) == 0 ? NULL : "another session";
  else if (strcmp(verb, "cas") == 0 && (k ? k->modified : 0) != index)
    why = "index is stale";
  else if (!gets)
    why = write_key(name, op, strcmp(verb, "lock") == 0);
  if (!why)
    json_array_append_new(results,
                          json_pack("{s:o}", "KV", shown(find(name), gets)));
  return why;
}

static long transaction(const struct dlk_buf *body, json_t **said) {
  json_t *ops = json_loadb(body->data, body->len, JSON_ALLOW_NUL, NULL);
  json_t *results = json_array();
  const char *why = NULL;
  size_t at = 0;
  if (!ops || json_array_size(ops) > DLK_CONSUL_OPS)
    die("a bad transaction");
  touches = 0;
  while (!why && at < json_array_size(ops))
    why = run_op(json_object_get(json_array_get(ops, at++), "KV"), results);
  if (!why && touches > 0)
    last_index++;
  for (size_t i = touches; i > 0; i--) {
    struct key *k = &keys[touched[i - 1]];
    if (why)
      *k = before[i - 1];
    else
      changed(k->name);
  }
  *said = why ? json_pack("{s:[{s:i, s:s}]}", "Errors", "OpIndex", (int)at - 1,
                          "What", why)
              : json_pack("{s:O}", "Results", results);
  json_decref(results);
  json_decref(ops);
  return why ? 409 : 200;
}

/* ---- the rest ---- */

static long create_session(const struct dlk_buf *body, json_t **said) {
  json_t *o = json_loadb(body->data, body->len, 0, NULL);
  struct session *s = sessions;
  while (s < sessions + SESSIONS && s->id[0])
    s++;
  if (!o || s == sessions + SESSIONS)
    die("a bad session, or too many");
  s->ttl = strtoll(text_of(o, "TTL"), NULL, 10) * DLK_SEC;
  s->ends = host->now(host) + s->ttl;
  snprintf(s->id, sizeof s->id, "%08llx-0000-0000-0000-000000000000",
           (unsigned long long)++last_session);
  *said = json_pack("{s:s}", "ID", s->id);
  json_decref(o);
  return 200;
}

static long renew_session(const char *id, json_t **said) {
  struct session *s = session_of(id);
  if (!s)
    return 404;
  s->ends = host->now(host) + s->ttl;
  *said = json_array();
  return 200;
}

/* The locks, by the part of their names up to the next '/'. */
static json_t *list_names(const char *prefix) {
  json_t *out = json_array();
  for (size_t i = 0; i < KEYS; i++) {
    char name[NAME];
    if (!keys[i].created || !under(keys[i].name, prefix))
      continue;
    snprintf(name, sizeof name, "%.*s", NAME - 1, keys[i].name);
    char *slash = strchr(name + strlen(prefix), '/');
    if (slash)
      slash[1] = '\0';
    bool there = false;
    for (size_t k = 0; k < json_array_size(out); k++)
      there |= strcmp(json_string_value(json_array_get(out, k)), name) == 0;
    if (!there)
      json_array_append_new(out, json_string(name));
  }
  return out;
}

/* What a GET of the key or, with ?recurse, below it may have changed last. */
static int64_t index_of(const char *name, bool tree) {
  for (size_t i = change_count; i > 0; i--)
    if (tree ? under(changes[i - 1].name, name)
             : strcmp(changes[i - 1].name, name) == 0)
      return changes[i - 1].index;
  return 1;
}

/* A blocking query's. It waits for ever, so what it misses shows. */
static void read_query(const struct item *i, char name[NAME], int64_t *index,
                       bool *tree) {
  const char *key = i->path + strlen("/v1/kv/");
  snprintf(name, NAME, "%.*s", (int)strcspn(key, "?"), key);
  const char *at = strstr(key, "index=");
  *index = at ? strtoll(at + 6, NULL, 10) : 0;
  *tree = strstr(key, "&recurse") != NULL;
}

static bool is_query(const struct item *i) {
  return strstr(i->path, "?index=") != NULL;
}

static bool ready(const struct item *i) {
  char name[NAME];
  int64_t index;
  bool tree;
  if (!is_query(i) || i->refused || !i->call || i->status)
    return true;
  read_query(i, name, &index, &tree);
  return index_of(name, tree) > index;
}

static void query(struct item *i) {
  char name[NAME];
  int64_t index;
  bool tree;
  json_t *out = json_array();
  read_query(i, name, &index, &tree);
  for (size_t k = 0; k < KEYS; k++)
    if (keys[k].created &&
        (tree ? under(keys[k].name, name) : strcmp(keys[k].name, name) == 0))
      json_array_append_new(out, shown(&keys[k], true));
  i->status = json_array_size(out) == 0 ? 404 : 200;
  i->index = index_of(name, tree);
  i->said = out;
}

static void execute(struct item *i) {
  json_t *said = NULL;
  long status = 200;
  const char *id = strrchr(i->path, '/') + 1;
  if (i->refused)
    status = 0;
  else if (is_query(i))
    said = i->said, status = i->status;
  else if (under(i->path, "/v1/txn"))
    status = transaction(&i->body, &said);
  else if (under(i->path, "/v1/session/create"))
    status = create_session(&i->body, &said);
  else if (under(i->path, "/v1/session/renew/"))
    status = renew_session(id, &said);
  else if (under(i->path, "/v1/session/destroy/") && session_of(id))
    end_session(session_of(id));
  else if (strstr(i->path, "?keys")) {
    char prefix[NAME];
    const char *key = i->path + strlen("/v1/kv/");
    snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(key, "?"), key);
    said = list_names(prefix);
  }
  answer(i->call, status, i->index, said);
  dlk_buf_free(&i->body);
}

bool fake_step(void) {
  size_t some = 0, which[ITEMS];
  run_out();
  for (size_t i = 0; i < item_count; i++)
    if (ready(&items[i]))
      which[some++] = i;
  if (some == 0)
    return false;
  size_t at = which[sim_roll((uint32_t)some)];
  if (is_query(&items[at]) && !items[at].refused && items[at].call &&
      !items[at].status) {
    query(&items[at]);
    return true;
  }
  struct item i = take_item(at);
  execute(&i);
  return true;
}

/* ---- connections ---- */

static struct dlk_ss_link *link_of(struct dlk_http *h) {
  return (struct dlk_ss_link *)(void *)h; /* its first member */
}

void fake_connected(int64_t timeout) {
  (void)timeout;
  down = false;
}

/* What nobody waits for is done now, or by chance later, or never. */
void fake_lose_all(bool executed_first) {
  struct dlk_http_call *calls[ITEMS];
  size_t count = 0;
  run_out();
  for (size_t i = item_count; i > 0; i--) {
    struct item *at = &items[i - 1];
    if (at->call)
      calls[count++] = at->call;
    at->call = NULL;
    if (executed_first || !at->puts || at->refused || sim_roll(2) == 0) {
      struct item taken = take_item(i - 1);
      if (executed_first && taken.puts && !taken.refused)
        execute(&taken);
      else
        free_item(&taken);
    }
  }
  down = true;
  for (size_t i = 0; i < count; i++)
    answer(calls[i], 0, 0, NULL); /* unless an earlier one has dropped it */
  for (size_t i = 0; i < LINKS; i++)
    if (links[i]) {
      struct dlk_ss_link *l = link_of(links[i]);
      dlk_consul_cut(l, "cut");
      if (l->cut) { /* which it tells before anything else happens */
        host->timer_clear(host, &l->soon);
        l->soon.fire(&l->soon, host->now(host));
      }
    }
}

void fake_end(bool connected, enum dlk_ss_end end) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && (link_of(links[i])->state == DLK_CONSUL_UP) == connected)
      dlk_consul_end(link_of(links[i]), end, "ended");
}

void fake_expire(void) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && link_of(links[i])->state == DLK_CONSUL_UP &&
        session_of(link_of(links[i])->session))
      end_session(session_of(link_of(links[i])->session));
  fake_end(true, DLK_SS_END_EXPIRED);
}

bool fake_has(int64_t created) {
  run_out();
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created == created)
      return true;
  return false;
}

size_t fake_nodes(const char *lock) {
  size_t count = 0, len = strlen(lock + 1);
  run_out();
  for (size_t i = 0; i < KEYS; i++)
    count += keys[i].created && under(keys[i].name, lock + 1) &&
             keys[i].name[len] == '/';
  return count;
}

void fake_reset(void) {
  while (item_count > 0)
    free_item(&items[--item_count]);
  memset(keys, 0, sizeof keys);
  memset(sessions, 0, sizeof sessions);
  memset(links, 0, sizeof links);
  change_count = 0;
  down = false;
  host = NULL;
}

/* ---- conn/http.h ---- */

/* Told when the loop has let go of it. */
struct dlk_http_poll {
  void (*gone)(void *arg);
  void *arg;
};

bool dlk_http_library(void) {
  return true;
}

bool dlk_http_token(struct dlk_http *h, const char *token) {
  (void)h, (void)token;
  return true;
}

bool dlk_http_open(struct dlk_http *h, void (*gone)(void *arg), void *arg) {
  size_t at = 0;
  while (at < LINKS && links[at])
    at++;
  h->poll = calloc(1, sizeof *h->poll);
  if (at == LINKS || !h->poll)
    die("too many links");
  *h->poll = (struct dlk_http_poll){gone, arg};
  links[at] = h;
  h->all = -1;
  host = h->host;
  return true;
}

void dlk_http_close(struct dlk_http *h) {
  struct dlk_http_poll poll = *h->poll;
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] == h)
      links[i] = NULL;
  free(h->poll);
  poll.gone(poll.arg);
}

bool dlk_http_start(struct dlk_http *h, struct dlk_http_call *c,
                    const char *path, const char *body, size_t len,
                    int64_t timeout) {
  (void)timeout;
  if (item_count == ITEMS || strlen(path) >= sizeof items[0].path)
    die("too many requests, or a long one");
  struct item *i = &items[item_count++];
  *i = (struct item){.call = c, .puts = body, .refused = down};
  c->sent = h->host->now(h->host);
  snprintf(i->path, sizeof i->path, "%s", path);
  dlk_buf_add(&i->body, body ? body : "", len);
  dlk_buf_clear(&c->in);
  c->status = c->error = 0;
  c->insecure = false;
  c->index = c->date_ms = 0;
  c->text[0] = '\0';
  c->on = h;
  return true;
}

void dlk_http_drop(struct dlk_http_call *c) {
  c->on = NULL;
  for (size_t i = 0; i < item_count; i++)
    if (items[i].call == c)
      items[i].call = NULL;
  dlk_buf_free(&c->in);
}
