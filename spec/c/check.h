/* The few words that C tests need. A test program runs all its tests, says
 * "ok NAME" or "FAILED NAME file:line: what" for each, and exits 0 or 1. */
#ifndef SPEC_C_CHECK_H
#define SPEC_C_CHECK_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf check_failed;

#define CHECK(cond)                                                            \
  do {                                                                         \
    if (!(cond)) {                                                             \
      printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
      longjmp(check_failed, 1);                                                \
    }                                                                          \
  } while (0)

struct check {
  const char *name;
  void (*run)(void);
};

static inline int check_all(const struct check *tests, size_t n) {
  volatile int bad = 0;
  for (volatile size_t i = 0; i < n; i++) {
    if (setjmp(check_failed) == 0) {
      tests[i].run();
      printf("ok %s\n", tests[i].name);
    } else {
      printf("FAILED %s\n", tests[i].name);
      bad = 1;
    }
  }
  return bad;
}

/* The same numbers in every run: a failure can be seen again. */
static uint64_t check_seed = UINT64_C(0x243f6a8885a308d3);

static inline uint32_t check_random(uint32_t below) {
  check_seed ^= check_seed << 13;
  check_seed ^= check_seed >> 7;
  check_seed ^= check_seed << 17;
  return (uint32_t)(check_seed >> 32) % below;
}

#endif
