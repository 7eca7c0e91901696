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

struct check_tests {
  struct {
    const char *name;
    void (*run)(void);
  } list[64];
  size_t n;
};

static inline struct check_tests *check_tests(void) {
  static struct check_tests tests;
  return &tests;
}

/* TEST(name) { … } is a test. They run in the order in which they stand. */
#define TEST(test)                                                             \
  static void test(void);                                                      \
  __attribute__((constructor)) static void check_add_##test(void) {            \
    struct check_tests *t = check_tests();                                     \
    t->list[t->n].name = #test;                                                \
    t->list[t->n++].run = test;                                                \
  }                                                                            \
  static void test(void)

static inline int check_all(void) {
  const struct check_tests *t = check_tests();
  volatile int bad = 0;
  for (volatile size_t i = 0; i < t->n; i++) {
    if (setjmp(check_failed) == 0) {
      t->list[i].run();
      printf("ok %s\n", t->list[i].name);
    } else {
      printf("FAILED %s\n", t->list[i].name);
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
