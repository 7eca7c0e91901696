/* Whether messages come from the server that answers commands. */
#ifndef DLK_STORE_REDIS_CONN_APART_H
#define DLK_STORE_REDIS_CONN_APART_H

#include <stdbool.h>

struct dlk_redis_handshake;

/* Whether the connection for messages stands at another server process than
 * the one for commands, by both run ids, "" where one is not known; moved:
 * commands go to another process than before. */
bool dlk_redis_is_apart(const char *messages, const char *commands, bool moved);

/* Refuses a connection for messages that is not where commands go. */
void dlk_redis_apart_judge(struct dlk_redis_handshake *messages,
                           const char *commands);

#endif
