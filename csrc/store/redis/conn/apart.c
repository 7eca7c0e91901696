/* The connection for messages has to lead to the server process that commands
 * go to. What is handed over goes to those who listen there and to nobody else
 * (publish.lua), so who listens elsewhere is passed by, each time, until it
 * listens at the right one. There are two ways to be elsewhere: the address is
 * that of several servers, of which commands find the primary (a replica
 * refuses them), while any of them takes a subscription; or another server took
 * over behind the address, and the old one, which is a replica now, closes no
 * subscription.
 *
 * So the two are compared whenever one of them connects:
 * - Commands connect: what listens elsewhere is closed before any request is
 *   written, and made anew. So no message of the other server is heard once
 *   this one was asked. What is handed over until the new one listens is taken
 *   back by the server, since nobody heard it; who waits keeps its order and
 *   asks again when it listens, or by its timer.
 * - Messages connect while commands have a connection: one to another server is
 *   given up, and tried again after a pause, like a server that refuses. Behind
 *   a balancer that costs attempts. While commands have none, there is nothing
 *   to compare: that is done when they have one again.
 *
 * Where a run id may not be had (INFO is refused, or answered by a proxy), each
 * new connection for commands may be to another server and has the other one
 * made anew; which server that leads to is not known then. That it does no harm
 * to be elsewhere is the scripts' matter, and does not depend on this. */
#include "store/redis/conn/apart.h"

#include <string.h>

#include "store/redis/conn/handshake.h"

bool dlk_redis_is_apart(const char *messages, const char *commands,
                        bool moved) {
  if (messages[0] && commands[0])
    return strcmp(messages, commands) != 0;
  return moved;
}

void dlk_redis_apart_judge(struct dlk_redis_handshake *messages,
                           const char *commands) {
  if (messages->err.code == DLK_OK &&
      dlk_redis_is_apart(messages->run_id, commands, false))
    dlk_error_set(&messages->err, DLK_UNAVAILABLE,
                  "%s: messages would come from another server than answers "
                  "do; the address has to lead to the primary alone",
                  messages->name.text);
}
