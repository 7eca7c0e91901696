/* When may a session say "held": the chain of confirming writes. */
#ifndef DLK_STORE_SESSION_LIFE_CONFIRM_H
#define DLK_STORE_SESSION_LIFE_CONFIRM_H

#include "core/clock.h"

#include <stdbool.h>

struct dlk_zk_confirm {
  int64_t timeout; /* of the session, as negotiated */
  int64_t horizon; /* no hold of the session counts past this time */
  int64_t sent[2]; /* of confirms k-1 and k, the last that were answered */
  int64_t due;     /* of the next; 0: at once */
  uint32_t flying; /* token of the confirm under way, 0: none */
  int64_t flying_sent;
  uint32_t last_token;
};

/* A fresh session, whose connect was sent at `sent`. */
void dlk_zk_confirm_start(struct dlk_zk_confirm *c, int64_t sent,
                          int64_t timeout);
/* The connection was lost, or is new: what was promised before stays, and
 * what is under way will not count. */
void dlk_zk_confirm_restart(struct dlk_zk_confirm *c);
/* A quorum write is about to be sent at `now`. A token if it is the next of
 * the chain (to be handed to _answered), 0 if it comes too early to count. */
uint32_t dlk_zk_confirm_sent(struct dlk_zk_confirm *c, int64_t now);
/* The write's answer came at `now`. ok: it was committed. True when the horizon
 * moved. */
bool dlk_zk_confirm_answered(struct dlk_zk_confirm *c, uint32_t token, bool ok,
                             int64_t now);
/* When the next confirm is due; DLK_FOREVER while one is under way. */
int64_t dlk_zk_confirm_due(const struct dlk_zk_confirm *c);
/* A hold granted now would outlast the time the chain needs to reach it. */
bool dlk_zk_confirm_sustains(const struct dlk_zk_confirm *c, int64_t now);

#endif
