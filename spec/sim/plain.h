/* The admission queue in its plainest form, for the C stores: who holds, who
 * waits in order, and one rule (as queue_model.lua). Besides, what each
 * simulation in C needs: numbers by chance, and a way to fail. */
#ifndef SPEC_SIM_PLAIN_H
#define SPEC_SIM_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIN_MAX 64

struct plain_one {
  unsigned id;
  uint32_t units, cap;
};

struct plain {
  struct plain_one holders[PLAIN_MAX], queue[PLAIN_MAX];
  size_t held, waiting;
};

bool plain_fits(const struct plain *p, uint32_t units, uint32_t cap);
/* Holds at once, or queues up. */
bool plain_join(struct plain *p, unsigned id, uint32_t units, uint32_t cap);
/* Whether one that waits, or a newcomer, shares behind another that shares
 * under another limit, with no exclusive one between. */
bool plain_refuses(const struct plain *p, unsigned id, uint32_t units,
                   uint32_t cap);
/* Leaves, wherever it stands, and lets in who then fits. */
void plain_leave(struct plain *p, unsigned id);
/* Leaves and lets nobody in. */
void plain_remove(struct plain *p, unsigned id);
void plain_admit(struct plain *p);
/* One that holds exclusively becomes a reader, and lets in who then fits. */
void plain_downgrade(struct plain *p, unsigned id);
bool plain_holds(const struct plain *p, unsigned id);
bool plain_waits(const struct plain *p, unsigned id);

/* Numbers below n; the same ones for the same seed. */
void sim_seed(uint64_t seed);
uint32_t sim_roll(uint32_t n);

/* Prints the seed and what is wrong, and ends the program. */
_Noreturn void sim_wrong(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
/* With a single history asked for: tells what happens. */
void sim_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* usage: PROGRAM COUNT [FIRST-SEED]; prints "ok COUNT histories". */
int sim_main(int argc, char **argv, void (*history)(uint64_t seed));

#endif
