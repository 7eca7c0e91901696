/* CLOCK_MONOTONIC stands still while the machine sleeps, so a lease would seem
 * to live on. */
#include "core/clock.h"

#include <limits.h>
#include <time.h>

int64_t dlk_clock_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return (int64_t)ts.tv_sec * DLK_SEC + ts.tv_nsec;
}

int64_t dlk_time_add(int64_t a, int64_t b) {
  return b > 0 && a > DLK_FOREVER - b ? DLK_FOREVER : a + b;
}

int64_t dlk_lease_deadline(int64_t sent, int64_t ttl) {
  if (ttl == DLK_FOREVER)
    return DLK_FOREVER;
  int64_t margin = ttl / 100 + 10 * DLK_MS;
  return ttl > margin ? dlk_time_add(sent, ttl - margin) : sent;
}

int64_t dlk_from_ms(int64_t ms) {
  if (ms < 0)
    return -DLK_MS;
  return ms > DLK_FOREVER / DLK_MS ? DLK_FOREVER : ms * DLK_MS;
}

int64_t dlk_to_ms(int64_t ns) {
  int64_t ms = ns / DLK_MS + (ns % DLK_MS > 0);
  return ms < 1 ? 1 : ms;
}

int dlk_poll_ms(int64_t until) {
  if (until == DLK_FOREVER)
    return -1;
  int64_t now = dlk_clock_now();
  if (until <= now)
    return 0;
  int64_t ms = dlk_to_ms(until - now);
  return ms > INT_MAX ? INT_MAX : (int)ms;
}
