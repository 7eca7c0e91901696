/* embed.lua makes the header from the texts; only this file includes it. */
#include "store/redis/wire/scripts.h"

#include "redis_scripts.h"

#define SCRIPT(name)                                                           \
  {                                                                            \
#name, dlk_script_##name##_sha, dlk_script_##name,                         \
        sizeof dlk_script_##name - 1                                           \
  }

const struct dlk_redis_script_source dlk_redis_scripts[DLK_REDIS_SCRIPTS] = {
    [DLK_REDIS_TAKE] = SCRIPT(take),
    [DLK_REDIS_TRY] = SCRIPT(try),
    [DLK_REDIS_JOIN] = SCRIPT(join),
    [DLK_REDIS_REFRESH] = SCRIPT(refresh),
    [DLK_REDIS_LEAVE] = SCRIPT(leave),
    [DLK_REDIS_RELEASE] = SCRIPT(release),
    [DLK_REDIS_RENEW] = SCRIPT(renew),
    [DLK_REDIS_PROBE] = SCRIPT(probe),
    [DLK_REDIS_INSPECT] = SCRIPT(inspect),
    [DLK_REDIS_LIST] = SCRIPT(list),
    [DLK_REDIS_BREAK] = SCRIPT(break),
    [DLK_REDIS_REVOKE] = SCRIPT(revoke),
    [DLK_REDIS_GUARD] = SCRIPT(guard),
    [DLK_REDIS_CHANGE] = SCRIPT(change),
    [DLK_REDIS_DOWNGRADE] = SCRIPT(downgrade),
    [DLK_REDIS_ATTACH] = SCRIPT(attach),
};
