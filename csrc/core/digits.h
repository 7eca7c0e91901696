/* Reads decimal digits, writes hexadecimal ones. */
#ifndef DLK_CORE_DIGITS_H
#define DLK_CORE_DIGITS_H

#include <stddef.h>
#include <stdint.h>

/* Reads at most `most` (≤ 18) decimal digits at *at and moves *at behind them;
 * -1: there are none. */
static inline int64_t dlk_digits(const char **at, const char *end, int most) {
  const char *p = *at;
  int64_t n = 0;
  for (; p < end && *p >= '0' && *p <= '9' && p - *at < most; p++)
    n = n * 10 + (*p - '0');
  if (p == *at)
    return -1;
  *at = p;
  return n;
}

/* Writes 2 * n digits. Returns the place behind them. */
static inline char *dlk_hex(char *out, const void *bytes, size_t n) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *p = bytes;
  for (size_t i = 0; i < n; i++) {
    *out++ = digits[p[i] >> 4];
    *out++ = digits[p[i] & 15];
  }
  return out;
}

#endif
