/* How long a session is known to live (D5). */
#ifndef DLK_STORE_SESSION_LIFE_PROOF_H
#define DLK_STORE_SESSION_LIFE_PROOF_H

#include "store/session/driver.h"

struct dlk_ss_proof {
  const struct dlk_ss_rule *rule;
  int64_t timeout; /* as negotiated */
  int64_t horizon;
  int64_t sent[3]; /* of the two answered last, and the one under way */
  int64_t due;     /* of the next; 0: now */
  uint32_t flying; /* the one under way; 0: none */
  uint32_t last_token;
};

/* sent: before the session was asked for. */
void dlk_ss_proof_start(struct dlk_ss_proof *p, const struct dlk_ss_rule *rule,
                        int64_t sent, int64_t timeout);
/* The connection was lost or is new: what is under way does not count. */
void dlk_ss_proof_restart(struct dlk_ss_proof *p);
/* DLK_FOREVER: one is under way. */
int64_t dlk_ss_proof_due(const struct dlk_ss_proof *p);
/* Before a CREATE, DELETE or PROVE is sent. A token if it counts; else 0. */
uint32_t dlk_ss_proof_sent(struct dlk_ss_proof *p, enum dlk_ss_verb verb,
                           int64_t now);
/* ok: it was done. True: the horizon moved. */
bool dlk_ss_proof_answered(struct dlk_ss_proof *p, uint32_t token, bool ok,
                           int64_t now);
/* A hold granted now outlasts the chain's delay. */
bool dlk_ss_proof_sustains(const struct dlk_ss_proof *p, int64_t now);

#endif
