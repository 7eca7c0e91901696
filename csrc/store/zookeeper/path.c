/* Which paths the servers take: as PathUtils.validatePath has it. */
#include "store/zookeeper/path.h"

#include <string.h>

/* Of a character of UTF-8 that has more than one byte; 0: it is none, or none
 * that servers take. They refuse by the units of UTF-16: the surrogates that
 * a character of four bytes is made of, control characters, what is for private
 * use, and the last 16, among them what they read wrong bytes as. */
static size_t long_char(const unsigned char *p) {
  size_t n = (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 0;
  unsigned c = n == 2 ? p[0] & 0x1f : p[0] & 0x0f;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | (p[i] & 0x3f);
  }
  bool refused = c < (n == 2 ? 0xa0 : 0x800) || (c >= 0xd800 && c <= 0xf8ff) ||
                 c >= 0xfff0;
  return refused ? 0 : n;
}

static size_t char_ok(const char *p) {
  unsigned char c = (unsigned char)*p;
  if (c >= 0x80)
    return long_char((const unsigned char *)p);
  return c >= 0x20 && c != 0x7f;
}

bool dlk_zk_path_ok(const char *p) {
  if (!*p)
    return true;
  while (*p == '/') {
    size_t n = strcspn(++p, "/");
    if (n == 0 || (n <= 2 && memcmp(p, "..", n) == 0))
      return false;
    for (const char *end = p + n; p < end;) {
      size_t length = char_ok(p);
      if (length == 0)
        return false;
      p += length;
    }
  }
  return *p == '\0';
}
