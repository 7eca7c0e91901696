/* The server scripts (scripts/NAME.lua) by number. */
#ifndef DLK_STORE_REDIS_WIRE_SCRIPTS_H
#define DLK_STORE_REDIS_WIRE_SCRIPTS_H

#include <stddef.h>

enum dlk_redis_script {
  DLK_REDIS_TAKE,
  DLK_REDIS_TRY,
  DLK_REDIS_JOIN,
  DLK_REDIS_REFRESH,
  DLK_REDIS_LEAVE,
  DLK_REDIS_RELEASE,
  DLK_REDIS_RENEW,
  DLK_REDIS_PROBE,
  DLK_REDIS_INSPECT,
  DLK_REDIS_LIST,
  DLK_REDIS_BREAK,
  DLK_REDIS_REVOKE,
  DLK_REDIS_DOWNGRADE,
  DLK_REDIS_PUBLISH,
  DLK_REDIS_GUARD,
  DLK_REDIS_CHANGE,
  DLK_REDIS_ATTACH,
  DLK_REDIS_RENEW1,
  DLK_REDIS_RELEASE1,
  DLK_REDIS_VOTE,
  DLK_REDIS_RAISE,
  DLK_REDIS_SCRIPTS
};

#define DLK_REDIS_SHA 40

/* sha: the text's digest for EVALSHA. */
struct dlk_redis_script_source {
  const char *name, *sha, *text;
  size_t len;
};

extern const struct dlk_redis_script_source
    dlk_redis_scripts[DLK_REDIS_SCRIPTS];
/* Their forms for a node of a cluster: with classic messages (6.2), and with
 * sharded ones. */
extern const struct dlk_redis_script_source
    dlk_redis_cluster_scripts[DLK_REDIS_SCRIPTS],
    dlk_redis_shard_scripts[DLK_REDIS_SCRIPTS];

#endif
