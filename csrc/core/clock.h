/* Time. All times inside dlock are int64_t nanoseconds on CLOCK_BOOTTIME,
 * which goes on while the machine sleeps. DLK_FOREVER is later than any. */
#ifndef DLK_CORE_CLOCK_H
#define DLK_CORE_CLOCK_H

#include <stdint.h>

#define DLK_US INT64_C(1000)
#define DLK_MS INT64_C(1000000)
#define DLK_SEC INT64_C(1000000000)
#define DLK_FOREVER INT64_MAX
/* For so long the loop's owner may block for one answer alone. */
#define DLK_AWAIT_MAX (10 * DLK_MS)

int64_t dlk_clock_now(void);

/* a + b, saturating at DLK_FOREVER. */
int64_t dlk_time_add(int64_t a, int64_t b);

/* When a hold of ttl that was asked for at `sent` must count as ended by our
 * own clock: ttl less the drift margin of 1 % + 10 ms. */
int64_t dlk_lease_deadline(int64_t sent, int64_t ttl);

/* Nobody asks for more milliseconds than that, and sums of it are times. */
#define DLK_MS_MAX (INT64_MAX / DLK_MS / 4)

/* What a server says in milliseconds, which may be any number: saturating at
 * DLK_FOREVER; all that is below 0 is -1 ms. */
int64_t dlk_from_ms(int64_t ms);

/* Whole milliseconds, rounded up, at least 1, for servers that count so. */
int64_t dlk_to_ms(int64_t ns);

/* Seconds, not negative, as a user gives them. */
static inline int64_t dlk_from_seconds(double s) {
  return s >= 9e9 ? DLK_FOREVER : (int64_t)(s * 1e9);
}

/* From now until then, for poll(2). */
int dlk_poll_ms(int64_t until);

#endif
