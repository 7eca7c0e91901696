/* All times inside dlock are int64_t nanoseconds on CLOCK_BOOTTIME, which goes
 * on while the machine sleeps. DLK_FOREVER is later than any. */
#ifndef DLK_CORE_CLOCK_H
#define DLK_CORE_CLOCK_H

#include <stdint.h>

#define DLK_US INT64_C(1000)
#define DLK_MS INT64_C(1000000)
#define DLK_SEC INT64_C(1000000000)
#define DLK_FOREVER INT64_MAX
/* How long the loop's owner may block for one answer alone. */
#define DLK_AWAIT_MAX (10 * DLK_MS)

int64_t dlk_clock_now(void);

/* Saturates at DLK_FOREVER. */
int64_t dlk_time_add(int64_t a, int64_t b);

/* The end of a hold by our own clock, from the time before its request was
 * sent. The drift margin of 1 % + 10 ms is taken off here and nowhere else. */
int64_t dlk_lease_deadline(int64_t sent, int64_t ttl);

/* Requests ask for at most this, so that sums of it are times. */
#define DLK_MS_MAX (INT64_MAX / DLK_MS / 4)

/* For any number from a server: saturates at DLK_FOREVER; -1 ms if below 0. */
int64_t dlk_from_ms(int64_t ms);

/* Rounds up; at least 1. */
int64_t dlk_to_ms(int64_t ns);

/* s: not negative. */
static inline int64_t dlk_from_seconds(double s) {
  return s >= 9e9 ? DLK_FOREVER : (int64_t)(s * 1e9);
}

/* The timeout for poll(2). */
int dlk_poll_ms(int64_t until);

#endif
