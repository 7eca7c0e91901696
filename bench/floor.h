/* What the floors share: their side of what bench/crowd.lua says to a worker
 * (see there), and the clocks. A floor is one thread that calls these. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct floor_hold {
  long long came, went;
};

static struct floor_hold *floor_holds;
static size_t floor_count, floor_room;
static long long floor_pairs, floor_began;
static struct rusage floor_before;

/* Monotonic, ns. */
static inline long long floor_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static inline void floor_sleep(long ms) {
  struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
  if (ms > 0)
    nanosleep(&ts, NULL);
}

/* Ready: waits to be told until when to go on, and returns that. */
static inline long long floor_go(void) {
  long long stop;
  puts("ready");
  fflush(stdout);
  if (scanf("%lld", &stop) != 1)
    exit(1);
  getrusage(RUSAGE_SELF, &floor_before);
  floor_began = floor_now();
  return stop;
}

/* A hold of so many ms, which begins now; false if that is too late. */
static inline bool floor_hold(long ms, long long stop) {
  long long came = floor_now();
  floor_pairs++;
  if (came >= stop)
    return false;
  floor_sleep(ms);
  if (floor_count == floor_room) {
    floor_room = floor_room ? 2 * floor_room : 1024;
    floor_holds = realloc(floor_holds, floor_room * sizeof *floor_holds);
    if (!floor_holds)
      exit(1);
  }
  floor_holds[floor_count++] = (struct floor_hold){came, floor_now()};
  return true;
}

static inline long long floor_us(struct timeval before, struct timeval after) {
  return (after.tv_sec - before.tv_sec) * 1000000LL + after.tv_usec -
         before.tv_usec;
}

/* Says what was done since floor_go, and waits to be let go. */
static inline void floor_done(void) {
  struct rusage after;
  long long ended = floor_now();
  getrusage(RUSAGE_SELF, &after);
  for (size_t i = 0; i < floor_count; i++)
    printf("%lld %lld\n", floor_holds[i].came, floor_holds[i].went);
  printf("done %lld %lld %lld %lld %ld\n", floor_pairs, ended - floor_began,
         floor_us(floor_before.ru_utime, after.ru_utime),
         floor_us(floor_before.ru_stime, after.ru_stime),
         after.ru_nvcsw - floor_before.ru_nvcsw);
  fflush(stdout);
  while (getchar() != EOF)
    ;
}

#endif
