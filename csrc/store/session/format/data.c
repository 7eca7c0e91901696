/* A contender's node has lines of name=value for people (inspect) and for those
 * behind it, escaped like keys. A downgrade and a revoke add a line each
 * (query/), a stand-in has its fence (standin.c). */
#include "store/session/format/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/session/format/names.h"

int64_t dlk_ss_wall_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void add_owner(struct dlk_buf *out, const char *owner) {
  dlk_buf_addf(out, "owner=");
  dlk_ss_escape(out, owner, strlen(owner));
  dlk_buf_addf(out, "\npid=%ld\n", (long)getpid());
}

void dlk_ss_data_format(struct dlk_buf *out, const struct dlk_lease *lease) {
  add_owner(out, lease->owner);
  dlk_buf_addf(out, "since=%lld\nunits=%lu\ncap=%lu\n",
               (long long)dlk_ss_wall_ms(), (unsigned long)lease->want.units,
               (unsigned long)lease->want.cap);
  if (lease->ttl < DLK_FOREVER)
    dlk_buf_addf(out, "ttl=%lld\n", (long long)(lease->ttl / DLK_MS));
  if (lease->value) {
    dlk_buf_addf(out, "value=");
    dlk_ss_escape(out, lease->value, lease->value_len);
    dlk_buf_addf(out, "\n");
  }
}

static bool is_line(const char *at, size_t n, const char *name) {
  return n >= strlen(name) && memcmp(at, name, strlen(name)) == 0;
}

void dlk_ss_data_reown(struct dlk_buf *out, const char *data, size_t len,
                       const char *owner) {
  add_owner(out, owner);
  for (const char *at = data, *end = data + len; at && at < end;) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t n = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
    if (!is_line(at, n, "owner=") && !is_line(at, n, "pid="))
      dlk_buf_add(out, at, n);
    at += n;
  }
}

static void owner(const char *text, struct dlk_ss_data *out) {
  struct dlk_buf b = {0};
  if (dlk_ss_unescape(&b, text) && !b.failed)
    snprintf(out->owner, sizeof out->owner, "%.*s", (int)b.len, b.data);
  dlk_buf_free(&b);
}

void dlk_ss_data_parse(const char *data, size_t len, struct dlk_ss_data *out) {
  char text[512];
  memset(out, 0, sizeof *out);
  for (const char *at = data, *end = data + len; at && at < end;) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t n = (size_t)((newline ? newline : end) - at);
    if (n >= 6 && memcmp(at, "value=", 6) == 0) {
      out->value = at + 6;
      out->value_len = n - 6;
    }
    snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, at);
    at += newline ? n + 1 : n;
    if (strncmp(text, "owner=", 6) == 0)
      owner(text + 6, out);
    else if (strncmp(text, "ttl=", 4) == 0)
      out->ttl_ms = strtoll(text + 4, NULL, 10);
    else if (strncmp(text, "since=", 6) == 0)
      out->since_ms = strtoll(text + 6, NULL, 10);
    else if (strncmp(text, "fence=", 6) == 0)
      out->fence = strtoll(text + 6, NULL, 10);
    else if (strncmp(text, "end=", 4) == 0)
      out->end_ms = strtoll(text + 4, NULL, 10);
    else if (strcmp(text, "shared=1") == 0)
      out->shared = true;
    else if (strcmp(text, "revoked=1") == 0)
      out->revoked = true;
  }
}
