/* Why a hold needs more than an answer, and how long it is believed.
 *
 * A hold is an ephemeral node: it lives while its session lives at the leader.
 * Pings, reads and sync prove nothing: a server cut off from its majority
 * answers them long after that dropped the session. Only a committed write
 * passes through the majority. Even that, through a follower, does not renew
 * the session at the leader. Only two messages of the follower do
 * (SessionTrackerImpl.touchSession has no other caller there): its reply to the
 * leader's ping, which names the sessions heard of since the last one, and
 * REVALIDATE, sent before it lets in a client that attaches a session.
 *
 * So confirms are quorum writes, one at a time, each a spacing after the answer
 * to the last. When confirm k is answered, the session lives until
 *     send time of confirm k-2  +  timeout  -  margin.
 * The first two "confirms" of a connection are, both, the last one answered on
 * an earlier connection (in a fresh session: its opening, itself a quorum
 * write). Proofs, the second for the third confirm of a connection and later
 * ones:
 *
 * 1. Reattaching. The first answered confirm of a connection proves the send
 *    time of the last one answered before the cut. The library had that answer
 *    before it lost the connection, so it sent the handshake later. The new
 *    server asked its leader L (or is L), which counted the timeout anew before
 *    the client was told. The confirm went the same way: servers that lose
 *    their leader, and leaders that lose their majority, close clients'
 *    connections first, so its answer comes from L. Its commit shows that L was
 *    the leader when it counted. (A later leader counts every session from its
 *    own start, after that commit.) A request only sent before the cut counts
 *    for nothing, nor does its late answer: the library reconnects before we
 *    hear of it, so it may follow the handshake.
 * 2. Pings. Our server had processed confirm k-2 when it answered. In the
 *    spacing before k-1 is sent the leader pings each follower (every half
 *    tick; timeout >= 2 ticks). That ping lies before the commit of k-1 on the
 *    one connection from the leader. So the follower's reply, with the touch,
 *    lies before request k on the one back. And k was committed, so the leader
 *    had read the reply.
 *
 * Pauses and slow networks move these messages in time, not past each other.
 * The spacing exceeds a quarter of the timeout, at 2 ticks half a tick, for
 * pings lie half a tick and a bit apart. The configuration has to grant:
 * timeout >= 2 ticks (the default; 4 ticks through observers at a follower,
 * observerMasterPort, where a ping has two hops), and the same
 * minSessionTimeout and maxSessionTimeout everywhere: a server with smaller
 * ones shortens a session attached there, and we may never hear of it.
 *
 * Creates and deletes that fit the spacing count as confirms. */
#include "store/zookeeper/confirm.h"

const struct dlk_ss_rule dlk_zk_confirm = {.lag = 2, .writes = true};
