/* How long an etcd session counts (csrc/store/session/etcd/proof.c), against a
 * leader that ends a lease a TTL after the last keepalive that it handled, and
 * may still answer one whose lease has run out. spec/etcd/units_spec.lua
 * compiles and runs it. */
#include "check.h"
#include "store/session/etcd/proof.h"
#include "store/session/life/proof.h"

#define TTL (10 * DLK_SEC)

static struct dlk_ss_proof begun(int64_t at) {
  struct dlk_ss_proof p = {0};
  dlk_ss_proof_start(&p, &dlk_etcd_proof, at, TTL);
  return p;
}

TEST(a_session_counts_from_before_its_grant) {
  struct dlk_ss_proof p = begun(5 * DLK_SEC);
  CHECK(p.horizon == dlk_lease_deadline(5 * DLK_SEC, TTL));
  CHECK(dlk_ss_proof_sustains(&p, 6 * DLK_SEC));
  CHECK(!dlk_ss_proof_sustains(&p, 14 * DLK_SEC));
}

TEST(only_a_proof_counts) {
  struct dlk_ss_proof p = begun(0);
  CHECK(dlk_ss_proof_sent(&p, DLK_SS_CREATE, TTL) == 0);
  CHECK(dlk_ss_proof_sent(&p, DLK_SS_DELETE, TTL) == 0);
  CHECK(dlk_ss_proof_sent(&p, DLK_SS_PROVE, TTL) != 0);
  CHECK(dlk_ss_proof_due(&p) == DLK_FOREVER);
}

TEST(an_answer_proves_the_keepalive_before) {
  struct dlk_ss_proof p = begun(0);
  uint32_t one = dlk_ss_proof_sent(&p, DLK_SS_PROVE, 3 * DLK_SEC);
  CHECK(!dlk_ss_proof_answered(&p, one, true, 4 * DLK_SEC)); /* the grant's */
  CHECK(p.horizon == dlk_lease_deadline(0, TTL));
  uint32_t two = dlk_ss_proof_sent(&p, DLK_SS_PROVE, 7 * DLK_SEC);
  CHECK(dlk_ss_proof_answered(&p, two, true, 8 * DLK_SEC));
  CHECK(p.horizon == dlk_lease_deadline(3 * DLK_SEC, TTL));
  CHECK(!dlk_ss_proof_answered(&p, two, true, 8 * DLK_SEC));
}

TEST(a_lost_proof_counts_for_nothing_even_late) {
  struct dlk_ss_proof p = begun(0);
  uint32_t lost = dlk_ss_proof_sent(&p, DLK_SS_PROVE, 3 * DLK_SEC);
  dlk_ss_proof_restart(&p);
  CHECK(dlk_ss_proof_due(&p) == 0);
  CHECK(!dlk_ss_proof_answered(&p, lost, true, 4 * DLK_SEC));
  uint32_t next = dlk_ss_proof_sent(&p, DLK_SS_PROVE, 5 * DLK_SEC);
  CHECK(!dlk_ss_proof_answered(&p, next, false, 6 * DLK_SEC));
  CHECK(p.sent[1] == 0 && p.horizon == dlk_lease_deadline(0, TTL));
}

/* The leader handles a keepalive late; a lease that has run out may be kept
 * alive in vain until its revocation is through, and the read may come before
 * that. The horizon never passes the revocation. */
TEST(no_horizon_outlives_the_lease) {
  for (int run = 0; run < 20000; run++) {
    struct dlk_ss_proof p = begun(0);
    int64_t now = 0, handled = check_random(100) * DLK_MS, ends = handled + TTL;
    for (int k = 0; k < 20; k++) {
      int64_t due = dlk_ss_proof_due(&p);
      now = (due > now ? due : now) + check_random(6000) * DLK_MS;
      uint32_t token = dlk_ss_proof_sent(&p, DLK_SS_PROVE, now);
      int64_t at = now + check_random(1000) * DLK_MS;
      int64_t through = ends + check_random(2000) * DLK_MS;
      if (at >= through)
        break; /* answered: no such lease */
      if (at < ends)
        ends = at + TTL;
      now = at + check_random(200) * DLK_MS;
      dlk_ss_proof_answered(&p, token, true, now);
      CHECK(p.horizon <= ends);
      if (at >= ends)
        break; /* it is over, and this client has not heard */
    }
  }
}

int main(void) {
  return check_all();
}
