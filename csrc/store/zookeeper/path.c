/* As PathUtils.validatePath. */
#include "store/zookeeper/path.h"

#include <string.h>

/* Length of a UTF-8 character of more bytes; 0: none that servers take. They
 * refuse UTF-16 units: surrogates (of four bytes), control characters, private
 * use, and the last 16 (among them U+FFFD). */
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

bool dlk_zk_path_ok(const char *p) {
  if (!*p)
    return true;
  while (*p == '/') {
    size_t n = strcspn(++p, "/");
    if (n == 0 || (n <= 2 && memcmp(p, "..", n) == 0))
      return false;
    for (const char *end = p + n; p < end;) {
      const unsigned char *c = (const unsigned char *)p;
      size_t length = *c >= 0x80 ? long_char(c) : *c >= 0x20 && *c != 0x7f;
      if (length == 0)
        return false;
      p += length;
    }
  }
  return *p == '\0';
}
