/* What the floors of databases share: a lock in one of several ways, for pairs
 * or handed on. */
#ifndef BENCH_FLOOR_SQL_H
#define BENCH_FLOOR_SQL_H

#include "floor.h"
#include <string.h>

struct floor_way {
  const char *name; /* one that is handed on begins with "handoff" */
  void (*take)(bool waits);
  void (*give)(bool tells);
};

/* argv[at] names the way, and behind it stands how long a hold lasts that is
 * handed on. start: connects; all want the same lock where it is handed on. */
static inline int floor_run(const struct floor_way *ways, size_t count,
                            int argc, char **argv, int at, const char *usage,
                            void (*start)(char **argv, bool handing)) {
  const struct floor_way *way = NULL;
  bool handing = argc == at + 2;
  for (size_t i = 0; i < count; i++)
    if (argc > at && strcmp(argv[at], ways[i].name) == 0)
      way = &ways[i];
  if (!way || handing != (strncmp(way->name, "handoff", 7) == 0)) {
    fputs(usage, stderr);
    return 64;
  }
  start(argv, handing);
  long long stop = floor_go();
  bool in_time = true;
  do {
    way->take(handing);
    if (handing)
      in_time = floor_hold(atol(argv[at + 1]), stop);
    else
      floor_pairs++;
    way->give(handing);
  } while (handing ? in_time : floor_now() < stop);
  floor_done();
  return 0;
}

#endif
