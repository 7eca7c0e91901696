#include "plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state, current;
static bool telling;

bool plain_fits(const struct plain *p, uint32_t units, uint32_t cap) {
  uint64_t used = units;
  for (size_t i = 0; i < p->held; i++) {
    if (units == 0 || p->holders[i].units == 0 || p->holders[i].cap != cap)
      return false;
    used += p->holders[i].units;
  }
  return p->held == 0 || cap == 0 || used <= cap;
}

bool plain_refuses(const struct plain *p, unsigned id, uint32_t units,
                   uint32_t cap) {
  size_t place = 0;
  if (units == 0 || plain_holds(p, id))
    return false;
  while (place < p->waiting && p->queue[place].id != id)
    place++;
  for (size_t i = place; i-- > 0;) {
    if (p->queue[i].units == 0)
      return false;
    if (p->queue[i].cap != cap)
      return true;
  }
  for (size_t i = 0; i < p->held; i++)
    if (p->holders[i].units != 0 && p->holders[i].cap != cap)
      return true;
  return false;
}

void plain_admit(struct plain *p) {
  while (p->waiting > 0 && plain_fits(p, p->queue[0].units, p->queue[0].cap)) {
    p->holders[p->held++] = p->queue[0];
    memmove(p->queue, p->queue + 1, --p->waiting * sizeof p->queue[0]);
  }
}

void plain_downgrade(struct plain *p, unsigned id) {
  for (size_t i = 0; i < p->held; i++)
    if (p->holders[i].id == id)
      p->holders[i] = (struct plain_one){id, 1, 0};
  plain_admit(p);
}

bool plain_join(struct plain *p, unsigned id, uint32_t units, uint32_t cap) {
  if (p->waiting == PLAIN_MAX || p->held == PLAIN_MAX)
    abort();
  p->queue[p->waiting++] = (struct plain_one){id, units, cap};
  plain_admit(p);
  return plain_holds(p, id);
}

static bool drop(struct plain_one *list, size_t *count, unsigned id) {
  for (size_t i = 0; i < *count; i++) {
    if (list[i].id != id)
      continue;
    memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
    return true;
  }
  return false;
}

void plain_remove(struct plain *p, unsigned id) {
  if (!drop(p->holders, &p->held, id))
    drop(p->queue, &p->waiting, id);
}

void plain_leave(struct plain *p, unsigned id) {
  plain_remove(p, id);
  plain_admit(p);
}

static bool has(const struct plain_one *list, size_t count, unsigned id) {
  for (size_t i = 0; i < count; i++)
    if (list[i].id == id)
      return true;
  return false;
}

bool plain_holds(const struct plain *p, unsigned id) {
  return has(p->holders, p->held, id);
}

bool plain_waits(const struct plain *p, unsigned id) {
  return has(p->queue, p->waiting, id);
}

void sim_seed(uint64_t seed) {
  state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

uint32_t sim_roll(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 32) * n >> 32);
}

void sim_wrong(const char *fmt, ...) {
  va_list args;
  printf("seed %llu: ", (unsigned long long)current);
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  printf("\nto see it again: give the program 1 %llu\n",
         (unsigned long long)current);
  exit(1);
}

void sim_say(const char *fmt, ...) {
  va_list args;
  if (!telling)
    return;
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  printf("\n");
}

int sim_main(int argc, char **argv, void (*history)(uint64_t seed)) {
  unsigned long long count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  current = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  telling = count == 1;
  for (unsigned long long i = 0; i < count; i++, current++) {
    sim_seed(current);
    history(current);
  }
  printf("ok %llu histories\n", count);
  return 0;
}
