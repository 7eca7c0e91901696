/* A contender's key is its name without the number: the number is the key's
 * CreateIndex, so the order of numbers is that of the creates. A stand-in's key
 * is its name.
 *
 * Consul's newest servers take few characters in a key: '%' is written ',',
 * which is in no name, and so is a dot that ends one (they refuse "../"). */
#include "store/session/consul/wire/txn.h"

#include <stdlib.h>

#include "store/store.h"

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void add_base64(struct dlk_buf *out, const char *data, size_t n) {
  const unsigned char *p = (const unsigned char *)data;
  for (size_t i = 0; i < n; i += 3) {
    unsigned long bits = (unsigned long)p[i] << 16 |
                         (i + 1 < n ? (unsigned long)p[i + 1] << 8 : 0) |
                         (i + 2 < n ? (unsigned long)p[i + 2] : 0);
    char four[4];
    for (size_t k = 0; k < 4; k++)
      four[k] = i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
    dlk_buf_add(out, four, 4);
  }
}

void dlk_consul_value(const struct dlk_consul_entry *e, struct dlk_buf *out) {
  unsigned long bits = 0;
  int count = 0;
  for (const char *at = e->value; *at && *at != '='; at++) {
    const char *digit = strchr(digits, *at);
    bits = bits << 6 | (unsigned long)(digit ? digit - digits : 0);
    count += 6;
    if (count < 8)
      continue;
    count -= 8;
    dlk_buf_add(out, (char[]){(char)(bits >> count & 255)}, 1);
  }
}

/* In quotes. Ours are plain. */
static bool add_key(struct dlk_buf *out, const char *key, size_t n) {
  size_t plain = 0;
  while (plain < n && key[plain] >= '%' && key[plain] <= 'z' &&
         key[plain] != '\\')
    plain++;
  if (plain == n) {
    dlk_buf_addf(out, "\"%.*s\"", (int)n, key);
    return true;
  }
  json_t *string = json_stringn(key, n);
  char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
  dlk_buf_addf(out, "%s", text ? text : "");
  free(text);
  json_decref(string);
  return text != NULL;
}

bool dlk_consul_op(struct dlk_buf *body, const struct dlk_consul_op *op) {
  dlk_buf_addf(body,
               "%c{\"KV\":{\"Verb\":\"%s\",\"Key\":", body->len ? ',' : '[',
               op->verb);
  bool ok = add_key(body, op->key->len ? op->key->data : "", op->key->len);
  body->failed |= op->key->failed;
  if (op->value) {
    dlk_buf_addf(body, ",\"Value\":\"");
    add_base64(body, op->value, op->len);
    dlk_buf_addf(body, "\"");
  }
  if (op->session)
    dlk_buf_addf(body, ",\"Session\":\"%s\"", op->session);
  dlk_buf_addf(body, ",\"Index\":%lld}}", (long long)op->index);
  return ok;
}

/* ---- answers ---- */

static const char *text_of(const json_t *o, const char *name) {
  const char *text = json_string_value(json_object_get(o, name));
  return text ? text : "";
}

static int64_t number_of(const json_t *o, const char *name) {
  double n = json_number_value(json_object_get(o, name));
  return n >= 0 && n < (double)DLK_FENCE_END ? (int64_t)n : DLK_FENCE_END;
}

static struct dlk_consul_entry entry_of(const json_t *o) {
  if (json_is_string(o))
    return (struct dlk_consul_entry){json_string_value(o), "", "", 0, 0};
  return (struct dlk_consul_entry){.key = text_of(o, "Key"),
                                   .session = text_of(o, "Session"),
                                   .value = text_of(o, "Value"),
                                   .created = number_of(o, "CreateIndex"),
                                   .modified = number_of(o, "ModifyIndex")};
}

static void read_errors(const json_t *errors, struct dlk_consul_answer *out) {
  for (size_t i = 0; i < json_array_size(errors); i++) {
    const json_t *e = json_array_get(errors, i);
    int at = (int)number_of(e, "OpIndex");
    if (out->failed >= 0 && at >= out->failed)
      continue;
    out->failed = at;
    out->why = text_of(e, "What");
  }
}

bool dlk_consul_read(const struct dlk_buf *body,
                     struct dlk_consul_answer *out) {
  *out = (struct dlk_consul_answer){.failed = -1, .why = ""};
  if (body->len == 0)
    return true;
  /* Flags may be too large for an integer. */
  out->root = json_loadb(body->data, body->len,
                         JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  bool txn = json_is_object(out->root);
  const json_t *list = txn ? json_object_get(out->root, "Results") : out->root;
  read_errors(json_object_get(out->root, "Errors"), out);
  out->at = calloc(json_array_size(list) + 1, sizeof *out->at);
  if (!out->root || !out->at) {
    dlk_consul_free(out);
    return false;
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i);
    out->at[out->count++] = entry_of(txn ? json_object_get(one, "KV") : one);
  }
  return true;
}

void dlk_consul_free(struct dlk_consul_answer *a) {
  json_decref(a->root);
  free(a->at);
  a->root = NULL;
  a->at = NULL;
  a->count = 0;
}

/* ---- keys ---- */

static void add_path(struct dlk_buf *out, const char *path, size_t n) {
  for (size_t i = 1; i < n; i++) {
    bool ends = i + 1 == n || path[i + 1] == '/';
    if (path[i] == '.' && ends)
      dlk_buf_add(out, ",2E", 3);
    else
      dlk_buf_add(out, path[i] == '%' ? "," : path + i, 1);
  }
}

/* Its kind tells when it ends. */
static bool is_standin(const char *name) {
  const char *k = strpbrk(name, "k-");
  return k && k[0] == 'k' && k[1] != '-';
}

void dlk_consul_key(struct dlk_buf *out, const char *path) {
  const char *name = strrchr(path, '/') + 1, *number = strrchr(name, '-');
  bool whole = !number || is_standin(name);
  add_path(out, path, whole ? strlen(path) : (size_t)(number - path));
}

void dlk_consul_prefix(struct dlk_buf *out, const char *path) {
  add_path(out, path, strlen(path));
  dlk_buf_add(out, "/", 1);
}

void dlk_consul_number(struct dlk_buf *out, int64_t created) {
  dlk_buf_addf(out, "%015lld", (long long)created);
  dlk_buf_add(out, "", 1);
}

void dlk_consul_name(struct dlk_buf *out, const char *rest, int64_t created) {
  bool whole = is_standin(rest);
  dlk_buf_add(out, rest, strlen(rest) + whole);
  if (whole)
    return;
  dlk_buf_add(out, "-", 1);
  dlk_consul_number(out, created);
}

void dlk_consul_lock(struct dlk_buf *out, const char *rest, size_t n) {
  for (size_t i = 0; i < n; i++)
    dlk_buf_add(out, rest[i] == ',' ? "%" : rest + i, 1);
  dlk_buf_add(out, "", 1);
}
