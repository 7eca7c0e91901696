/* Error replies of the server.
 *
 * I1  Each error of the table says: the command did not run, or may run again.
 *     So RETRY and RECONNECT repeat the request; op/try.c takes back an acquire
 *     that was refused half-way.
 * I2  Any other error is reported and never retried.
 * I3  Messages are logged, and a server's text may repeat its input. So of an
 *     unknown command only the name is quoted, and of AUTH's answer nothing. */
#include "store/redis/wire/errors.h"

#include <stdbool.h>
#include <string.h>

static const struct dlk_redis_fault table[] = {
    {"LOADING", DLK_REDIS_RETRY, DLK_UNAVAILABLE,
     "it is loading its data; wait"},
    {"BUSY", DLK_REDIS_RETRY, DLK_UNAVAILABLE,
     "a script blocks it; wait, or SCRIPT KILL"},
    {"TRYAGAIN", DLK_REDIS_RETRY, DLK_UNAVAILABLE, "a slot is moving; wait"},
    {"CLUSTERDOWN", DLK_REDIS_RETRY, DLK_UNAVAILABLE, "see CLUSTER INFO"},
    {"MASTERDOWN", DLK_REDIS_RECONNECT, DLK_UNAVAILABLE,
     "it is a replica without its primary; use the primary, or "
     "redis+sentinel://"},
    {"READONLY", DLK_REDIS_RECONNECT, DLK_UNAVAILABLE,
     "it is a read-only replica; use the primary, or redis+sentinel://"},
    {"UNBLOCKED", DLK_REDIS_RECONNECT, DLK_UNAVAILABLE,
     "it became a replica; use the primary"},
    {"MOVED", DLK_REDIS_FAIL, DLK_UNSUPPORTED,
     "it is a node of a cluster; use redis+cluster:// (or "
     "rediss+cluster://)"},
    {"ASK", DLK_REDIS_FAIL, DLK_UNSUPPORTED,
     "it is a node of a cluster; use redis+cluster:// (or "
     "rediss+cluster://)"},
    {"CROSSSLOT", DLK_REDIS_FAIL, DLK_UNSUPPORTED,
     "the keys of one call must be in one slot"},
    {"NOSCRIPT", DLK_REDIS_SEND_TEXT, DLK_UNAVAILABLE,
     "its script cache was emptied"},
    {"NOAUTH", DLK_REDIS_FAIL, DLK_DENIED, "give a password"},
    {"WRONGPASS", DLK_REDIS_FAIL, DLK_DENIED,
     "check the user name and the password"},
    {"NOPERM", DLK_REDIS_FAIL, DLK_DENIED,
     "change the user's ACL, see docs/security.md"},
    {"DENIED", DLK_REDIS_FAIL, DLK_DENIED,
     "the server runs in protected mode; set a password"},
    {"OOM", DLK_REDIS_LATER, DLK_UNAVAILABLE,
     "it is out of memory; raise maxmemory"},
    {"MISCONF", DLK_REDIS_LATER, DLK_UNAVAILABLE,
     "it cannot save its data; see its log"},
    {"NOREPLICAS", DLK_REDIS_LATER, DLK_UNAVAILABLE,
     "too few replicas; see min-replicas-to-write"},
    {"WRONGTYPE", DLK_REDIS_FAIL, DLK_INVALID,
     "the key, or one of its keys ~dlock:{..}, holds something else than dlock "
     "would; use another name, or delete the latter"},
    {"NOPROTO", DLK_REDIS_FAIL, DLK_UNSUPPORTED, "it speaks RESP2 no more"},
};

static const struct dlk_redis_fault other = {
    "", DLK_REDIS_FAIL, DLK_UNAVAILABLE, "see the server's log"};
static const struct dlk_redis_fault no_password = {
    "", DLK_REDIS_FAIL, DLK_DENIED,
    "the server has no password set; open it without one"};
static const struct dlk_redis_fault no_right = {
    "", DLK_REDIS_FAIL, DLK_DENIED,
    "change the user's ACL, see docs/security.md"};
static const struct dlk_redis_fault no_command = {
    "", DLK_REDIS_FAIL, DLK_UNAVAILABLE,
    "it was set up without that command (rename-command), and dlock needs it"};
static const struct dlk_redis_fault demoted = {
    "", DLK_REDIS_RECONNECT, DLK_UNAVAILABLE,
    "it is a replica; use the primary"};
static const struct dlk_redis_fault too_many = {
    "", DLK_REDIS_RETRY, DLK_UNAVAILABLE, "raise its maxclients"};

static const struct dlk_redis_fault counter = {
    "", DLK_REDIS_FAIL, DLK_INVALID,
    "another program wrote to the lock's fence counter; delete that key, "
    "~dlock:{..}:f: (of a Redlock :v:) and the lock's name"};

static int begins(const char *text, const char *word) {
  size_t n = strlen(word);
  return strncmp(text, word, n) == 0 && (text[n] == ' ' || text[n] == '\0');
}

/* Returns what follows "EXECABORT Transaction discarded because of: ". */
static const char *reason_of(const char *text) {
  static const char because[] = "because of: ";
  const char *at = begins(text, "EXECABORT") ? strstr(text, because) : NULL;
  return at ? at + sizeof because - 1 : text;
}

static const struct dlk_redis_fault *by_word(const char *text) {
  text = reason_of(text);
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (begins(text, table[i].word))
      return &table[i];
  return NULL;
}

static bool is_missing(const char *text) {
  return begins(text, "ERR unknown command") ||
         strstr(text, "Unknown Redis command") != NULL;
}

int dlk_redis_fault_is_denial(const char *text) {
  return is_missing(text) || begins(reason_of(text), "NOPERM") ||
         strstr(text, "ACL failure") != NULL ||
         strstr(text, "executing the script can't") != NULL;
}

bool dlk_redis_fault_is_nameless(const char *text) {
  return strstr(text, "executing the script can't") != NULL;
}

bool dlk_redis_fault_is_of_keys(const char *text) {
  return dlk_redis_fault_is_denial(text) && strstr(text, " access ") &&
         strstr(text, "key");
}

bool dlk_redis_fault_bars_names(const char *text) {
  return begins(text, "ERR unknown command") ||
         (begins(text, "NOPERM") && strstr(text, "'evalsha'") != NULL);
}

const struct dlk_redis_fault *dlk_redis_fault_find(const char *text) {
  const struct dlk_redis_fault *found = by_word(text);
  if (found)
    return found;
  if (!begins(text, "ERR"))
    return &other;
  /* "ERR Error running script (call to f_..): @user_script:1: -READONLY .." */
  for (const char *at = strstr(text, ": -"); at; at = strstr(at + 1, ": -")) {
    found = by_word(at + 3);
    if (found)
      return found;
  }
  if (strstr(text, "no password is set") ||
      strstr(text, "without any password configured"))
    return &no_password;
  if (strstr(text, "WAIT cannot be used with replica"))
    return &demoted;
  if (strstr(text, "max number of clients"))
    return &too_many;
  if (strstr(text, "~counter~") || strstr(text, "value is not an integer") ||
      strstr(text, "increment or decrement would overflow"))
    return &counter;
  if (is_missing(text))
    return &no_command;
  if (dlk_redis_fault_is_denial(text))
    return &no_right;
  return &other;
}

bool dlk_redis_fault_may_be_late(const struct dlk_redis_fault *fault) {
  return fault->action == DLK_REDIS_FAIL;
}

/* The length of ".. unknown command 'AUTH', with args beginning with: 'secret'"
 * up to the name's closing quote. */
static size_t without_arguments(const char *text) {
  static const char unknown[] = "nknown command", quotes[] = "'`\"";
  const char *at = strstr(text, unknown);
  if (!at)
    return strlen(text);
  at += sizeof unknown - 1;
  at += strspn(at, " :'`\"");
  at += strcspn(at, " ,;('`\"");
  at += *at && strchr(quotes, *at);
  return (size_t)(at - text);
}

const char *dlk_redis_fault_quote(const char *text,
                                  char out[DLK_REDIS_QUOTE_MAX]) {
  size_t len = without_arguments(text), n = 0;
  /* A hostile server may send control characters. */
  for (; n < len && n < DLK_REDIS_QUOTE_MAX - 1; n++)
    out[n] = text[n] >= ' ' && text[n] < 127 ? text[n] : '?';
  out[n] = '\0';
  return out;
}

enum dlk_code dlk_redis_fault_error(struct dlk_error *err, const char *text,
                                    const char *shown) {
  const struct dlk_redis_fault *f = dlk_redis_fault_find(text);
  char said[DLK_REDIS_QUOTE_MAX];
  return dlk_error_set(err, f->code, "%s answers \"%s\"; %s", shown,
                       dlk_redis_fault_quote(text, said), f->advice);
}

enum dlk_code dlk_redis_fault_unquoted(struct dlk_error *err, const char *text,
                                       const char *shown, const char *what) {
  const struct dlk_redis_fault *f = dlk_redis_fault_find(text);
  return dlk_error_set(err, f->code, "%s refuses %s; %s", shown, what,
                       f->advice);
}

enum dlk_code dlk_redis_odd(struct dlk_error *err, const char *shown) {
  return dlk_error_set(err, DLK_UNAVAILABLE,
                       "%s gives an answer that Redis would not; is there a "
                       "proxy in between?",
                       shown);
}
