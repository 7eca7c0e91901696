/* Why the rules are right:
 * - A request that touches only its own token, or says the same twice, is sent
 *   again when its answer is lost.
 * - One that takes a lock is not: its token may hold by then, and a hand-over
 *   to that token would be believed. It begins anew with another token.
 * - A second break would hit the next holder; a guarded write may have been
 *   done. The caller has to look.
 * - A release, or a lock that may have been got, is told the truth at once; the
 *   server is told for as long as it may keep the token (orphan.c). An attach
 *   that may have been done is undone.
 * - A place in a queue, or among the watchers, is given up by a request that is
 *   waited for, so that the caller leaves nothing behind.
 * - A refusal is final, but for a token to be taken back (wire/errors.c).
 * - What too few replicas have may be undone by a failover, so no hold begins
 *   with it. An extension stays on the server, and its holder does not count on
 *   it.
 *
 * A column for what may be known, a line for each request; below, what too few
 * replicas mean. */
#include "store/redis/op/rules.h"

struct cell {
  uint8_t until, then;
};

/* clang-format off */
#define TELL       {DLK_REDIS_NEVER,    DLK_REDIS_LET_BE}
#define BACK       {DLK_REDIS_NEVER,    DLK_REDIS_TAKE_BACK}
#define LEAVE      {DLK_REDIS_NEVER,    DLK_REDIS_LEAVE_NOW}
#define WARN       {DLK_REDIS_NEVER,    DLK_REDIS_MAY_BE_DONE}
#define ONCE       {DLK_REDIS_ONCE,     DLK_REDIS_LET_BE}
#define WAIT       {DLK_REDIS_WAITING,  DLK_REDIS_LET_BE}
#define WAIT_BACK  {DLK_REDIS_WAITING,  DLK_REDIS_TAKE_BACK}
#define AGAIN      {DLK_REDIS_WANTED,   DLK_REDIS_LET_BE}
#define AGAIN_BACK {DLK_REDIS_WANTED,   DLK_REDIS_TAKE_BACK}
#define ANEW       {DLK_REDIS_WANTED,   DLK_REDIS_NEW_TOKEN}
#define WAIT_ANEW  {DLK_REDIS_WAITING,  DLK_REDIS_NEW_TOKEN}
#define STAND      {DLK_REDIS_STANDING, DLK_REDIS_LET_BE}

#define RULE(aim)  [DLK_REDIS_TO_##aim]
#define SAY(what)  DLK_REDIS_SAY_##what

static const struct {
  struct cell not_done, unsure, refused, withdrawn;
  uint8_t told;
} rules[DLK_REDIS_AIMS] = {
  /*                 not done    unsure      refused withdrawn */
  RULE(TRY)       = {WAIT_BACK,  ANEW,       BACK,   BACK,  SAY(LAST)},
  RULE(JOIN)      = {WAIT_BACK,  ANEW,       BACK,   LEAVE, SAY(LAST)},
  RULE(SUBSCRIBE) = {WAIT_BACK,  WAIT_BACK,  BACK,   LEAVE, SAY(LAST)},
  RULE(LEAVE)     = {BACK,       BACK,       BACK,   BACK,  SAY(LAST)},
  RULE(RELEASE)   = {AGAIN_BACK, AGAIN_BACK, BACK,   BACK,  SAY(LAST)},
  RULE(KEEP)      = {AGAIN_BACK, AGAIN_BACK, BACK,   BACK,  SAY(LAST)},
  RULE(EXTEND)    = {AGAIN,      AGAIN,      TELL,   TELL,  SAY(LOST)},
  RULE(DOWNGRADE) = {AGAIN,      AGAIN,      TELL,   TELL,  SAY(LOST)},
  RULE(DETACH)    = {AGAIN,      AGAIN,      TELL,   TELL,  SAY(LOST)},
  RULE(ATTACH)    = {AGAIN_BACK, AGAIN_BACK, BACK,   BACK,  SAY(LAST)},
  RULE(WATCH)     = {WAIT,       AGAIN,      TELL,   LEAVE, SAY(LAST)},
  RULE(UNWATCH)   = {TELL,       TELL,       TELL,   TELL,  SAY(LAST)},
  RULE(READ)      = {TELL,       ONCE,       TELL,   TELL,  SAY(LAST)},
  RULE(REVOKE)    = {TELL,       ONCE,       TELL,   TELL,  SAY(LAST)},
  RULE(BREAK)     = {TELL,       WARN,       TELL,   TELL,  SAY(LAST)},
  RULE(GUARD)     = {TELL,       WARN,       TELL,   TELL,  SAY(LAST)},
  RULE(TAKE_BACK) = {STAND,      STAND,      TELL,   TELL,  SAY(LAST)},
};

static const struct cell scarce[DLK_REDIS_AIMS] = {
  RULE(TRY)       = WAIT_ANEW,
  RULE(JOIN)      = WAIT_ANEW,
  RULE(KEEP)      = WAIT_ANEW,
  RULE(EXTEND)    = TELL,
  RULE(ATTACH)    = BACK,
};
/* clang-format on */

struct dlk_redis_rule dlk_redis_rule(enum dlk_redis_aim aim,
                                     enum dlk_redis_verdict verdict) {
  struct cell c = verdict == DLK_REDIS_NOT_DONE  ? rules[aim].not_done
                  : verdict == DLK_REDIS_UNSURE  ? rules[aim].unsure
                  : verdict == DLK_REDIS_REFUSED ? rules[aim].refused
                  : verdict == DLK_REDIS_SCARCE  ? scarce[aim]
                                                 : rules[aim].withdrawn;
  return (struct dlk_redis_rule){.until = (enum dlk_redis_until)c.until,
                                 .then = (enum dlk_redis_then)c.then,
                                 .told = (enum dlk_redis_told)rules[aim].told};
}
