/* Names of nodes.
 *
 * A lock's is its key, each byte but [A-Za-z0-9_.-] written as %XX: one legal
 * path component for any key, and no two keys share one. "." and ".." alone are
 * escaped, too.
 *
 * A contender's is <kind>-<guid>-<client>-<number>. Kinds: "x" asks for all,
 * "sP" for P units without a limit, "pP.C" for P of C. A "k" behind says
 * min_hold; a stand-in (standin.c) adds its end. A guid belongs to one attempt
 * to create, so a lost one can be found; the client marks this store's own
 * nodes. The driver appends the number: as "%010d" where it wraps at 2^31, else
 * as "%015d". */
#include "store/session/format/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/digits.h"

static bool plain(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

void dlk_ss_escape(struct dlk_buf *out, const char *key, size_t len) {
  bool dots = (len == 1 || len == 2) && memcmp(key, "..", len) == 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)key[i];
    if (plain(c) && !dots)
      dlk_buf_add(out, key + i, 1);
    else
      dlk_buf_addf(out, "%%%02X", c);
  }
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool dlk_ss_unescape(struct dlk_buf *out, const char *name) {
  for (const char *p = name; *p; p++) {
    char c = *p;
    if (c == '%') {
      int high = hex_digit(p[1]);
      int low = high < 0 ? -1 : hex_digit(p[2]);
      if (low < 0)
        return false;
      c = (char)(high * 16 + low);
      p += 2;
    } else if (!plain((unsigned char)c)) {
      return false;
    }
    dlk_buf_add(out, &c, 1);
  }
  return *name != '\0';
}

const char *dlk_ss_path(struct dlk_buf *b, size_t len, const char *name) {
  b->len = len;
  if (name)
    dlk_buf_addf(b, "/%s", name);
  dlk_buf_add(b, "", 1);
  return b->failed ? NULL : b->data;
}

void dlk_ss_hex(char *out, const unsigned char *bytes, size_t n) {
  *dlk_hex(out, bytes, n) = '\0';
}

static size_t put_kind(char out[32], uint32_t units, uint32_t cap, bool keeps) {
  unsigned long u = units, c = cap;
  const char *k = keeps ? "k" : "";
  int n = units == 0 ? snprintf(out, 32, "x%s", k)
          : cap == 0 ? snprintf(out, 32, "s%lu%s", u, k)
                     : snprintf(out, 32, "p%lu.%lu%s", u, c, k);
  return (size_t)n;
}

size_t dlk_ss_name_guid_at(uint32_t units, uint32_t cap, bool keeps) {
  char kind[32];
  return put_kind(kind, units, cap, keeps) + 1;
}

void dlk_ss_name_format(char out[DLK_SS_NAME_MAX], uint32_t units, uint32_t cap,
                        bool keeps, const char *guid, const char *client) {
  char kind[32];
  (void)put_kind(kind, units, cap, keeps);
  snprintf(out, DLK_SS_NAME_MAX, "%s-%s-%s-", kind, guid, client);
}

void dlk_ss_name_standin(char out[DLK_SS_NAME_MAX],
                         const struct dlk_ss_entry *of, int64_t until_ms) {
  char kind[32];
  (void)put_kind(kind, of->units, of->cap, true);
  snprintf(out, DLK_SS_NAME_MAX, "%s%lld-%s", kind, (long long)until_ms,
           of->guid);
}

size_t dlk_ss_name_room(uint32_t units) {
  size_t exclusive = sizeof "xk---" + DLK_SS_GUID + DLK_SS_CLIENT + 15;
  return units == 0 ? exclusive : DLK_SS_NAME_MAX;
}

static bool number(const char **at, uint32_t *out) {
  if (**at < '1' || **at > '9')
    return false;
  char *end;
  errno = 0;
  unsigned long long n = strtoull(*at, &end, 10);
  if (errno || n > UINT32_MAX)
    return false;
  *at = end;
  *out = (uint32_t)n;
  return true;
}

static bool parse_kind(const char **at, struct dlk_ss_entry *out) {
  char kind = *(*at)++;
  out->units = out->cap = 0;
  if (kind == 'x')
    return true;
  if (kind == 's')
    return number(at, &out->units);
  if (kind != 'p' || !number(at, &out->units) || *(*at)++ != '.')
    return false;
  return number(at, &out->cap);
}

/* "k", and a stand-in's end: at most 18 digits. */
static bool parse_kept(const char **at, struct dlk_ss_entry *out) {
  out->keeps = **at == 'k';
  out->until_ms = 0;
  if (!out->keeps)
    return true;
  size_t digits = strspn(++*at, "0123456789");
  if (digits > 18 || **at == '0')
    return false;
  for (; digits > 0; digits--)
    out->until_ms = out->until_ms * 10 + (*(*at)++ - '0');
  return true;
}

static bool parse_hex(const char **at, size_t n, const char **out) {
  if (*(*at)++ != '-')
    return false;
  *out = *at;
  if (strspn(*at, "0123456789abcdef") != n)
    return false;
  *at += n;
  return true;
}

static bool parse_seq(const char *at, int64_t *out) {
  if (*at++ != '-')
    return false;
  size_t digits = strspn(*at == '-' ? at + 1 : at, "0123456789");
  if (digits < 9 || (digits > 10 && digits != 15))
    return false;
  char *end;
  long long n = strtoll(at, &end, 10);
  if (*end != '\0' || (digits < 15 && (n < INT32_MIN || n > INT32_MAX)))
    return false;
  *out = n;
  return true;
}

bool dlk_ss_name_parse(const char *name, struct dlk_ss_entry *out) {
  const char *at = name;
  out->name = name;
  return *at && parse_kind(&at, out) && parse_kept(&at, out) &&
         parse_hex(&at, DLK_SS_GUID, &out->guid) &&
         parse_hex(&at, DLK_SS_CLIENT, &out->client) &&
         parse_seq(at, &out->seq);
}

char **dlk_ss_names_copy(char *const *names, size_t count) {
  size_t size = count * sizeof(char *);
  for (size_t i = 0; i < count; i++)
    size += strlen(names[i]) + 1;
  char *block = malloc(size ? size : 1);
  if (!block)
    return NULL;
  char **to = (char **)(void *)block;
  char *at = block + count * sizeof(char *);
  for (size_t i = 0; i < count; i++) {
    size_t n = strlen(names[i]) + 1;
    to[i] = memcpy(at, names[i], n);
    at += n;
  }
  return to;
}

/* No number that wraps is above INT32_MAX. */
bool dlk_ss_seq_before(int64_t a, int64_t b) {
  if (a > INT32_MAX || b > INT32_MAX)
    return a < b;
  return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}
