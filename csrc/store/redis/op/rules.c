/* Why the rules are right:
 * - Whatever only ever touches its own token, or says the same when it runs
 *   twice, is sent again when its answer is lost: release, renew, attach,
 *   downgrade, revoke, all that reads.
 * - What takes a lock is not: its token may hold by then, and what the server
 *   hands to that token would be believed. It begins anew with another token,
 *   and the old one is taken back.
 * - A break whose answer was lost may have let the next holder in, whom a
 *   second one would hit; a guarded write may have been done. The caller has
 *   to look.
 * - Who releases, or gives up a lock that it may have got, is told the truth at
 *   once; the server is told for as long as it may keep the token (orphan.c).
 *   Likewise an attach that may have been done is undone.
 * - A place in a queue, or among those who wait for a change, is given up by a
 *   request that is waited for, so that the caller leaves nothing behind; only
 *   when that has no answer, it is left to the background, or to its end.
 * - A refusal is final: the server would say the same again. Only what is to
 *   be taken back is asked for again, where the refusal passes by itself, which
 *   the table in wire/errors.c says (orphan.c).
 * - What too few replicas have may be undone by the next failover, so no hold
 *   begins with it: the token is taken back, and who waits begins anew. An
 *   extension stays on the server, and its holder does not count on it.
 *
 * One column for each of what may be known, one line for each request; below,
 * what it means to whom it matters that too few replicas have it. */
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
