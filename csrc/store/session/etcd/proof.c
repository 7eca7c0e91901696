/* How long a session (a lease) is known to live.
 *
 * A proof is a LeaseKeepAlive and, sent behind its answer, a linearizable read
 * of a key on the lease. The leader counts the whole TTL anew when it handles
 * the keepalive, which is after it was sent. The read says that the lease had
 * not been revoked since: its keys are there, by the word of a majority.
 *
 * When proof k is answered, the lease lives until
 *     send time of keepalive k-1  +  TTL  -  margin.
 * One proof is given away for servers before 3.4.38, 3.5.23 and 3.6.5: a lease
 * that has run out, and whose revocation is under way, may still have its
 * keepalive answered (etcd PR 20615). It may even be read behind that. It had
 * run out a TTL after keepalive k-1 at the earliest.
 *
 * A new leader gives every lease its whole TTL again, so no change of leader
 * and no reconnection shortens one. What it takes: clocks run at the margin's
 * rate, and no leader that has lost its majority revokes leases of old (etcd
 * issue 15247, mended in 3.4.31 and 3.5.13: docs/etcd.md).
 *
 * Creates and deletes prove nothing: they do not renew a lease. */
#include "store/session/etcd/proof.h"

const struct dlk_ss_rule dlk_etcd_proof = {.lag = 1, .writes = false};
