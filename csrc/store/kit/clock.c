/* Compares a hold's time on the server with ours. */
#include "store/kit/clock.h"

#include <stdio.h>

#include "core/clock.h"

#define SLACK DLK_SEC
#define EVERY (60 * DLK_SEC)

void dlk_clock_compare(struct dlk_host *host, const char *shown, int64_t *told,
                       int64_t left, int64_t least, int64_t most) {
  int64_t now = host->now(host);
  char text[400];
  if ((left >= least - SLACK && left <= most + SLACK) ||
      (*told && now - *told < EVERY))
    return;
  *told = now;
  snprintf(text, sizeof text,
           "%.200s: the server's clock stepped: a lock had %lld ms left there, "
           "at least %lld ms by ours; locks may end early or late",
           shown, (long long)(left / DLK_MS), (long long)(least / DLK_MS));
  host->event(host, "clock", text);
}
