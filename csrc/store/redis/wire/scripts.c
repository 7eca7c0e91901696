/* embed.lua makes the header from the texts; only this file includes it. */
#include "store/redis/wire/scripts.h"

#include "redis_scripts.h"

/* clang-format off */
#define SCRIPT(name, variable)                                                 \
  {#name, variable##_sha, variable, sizeof(variable) - 1}

#define SCRIPTS(form)                                                          \
  [DLK_REDIS_TAKE] = SCRIPT(take, dlk_script_take##form),\
  [DLK_REDIS_TRY] = SCRIPT(try, dlk_script_try##form),\
  [DLK_REDIS_JOIN] = SCRIPT(join, dlk_script_join##form),\
  [DLK_REDIS_REFRESH] = SCRIPT(refresh, dlk_script_refresh##form),\
  [DLK_REDIS_LEAVE] = SCRIPT(leave, dlk_script_leave##form),\
  [DLK_REDIS_RELEASE] = SCRIPT(release, dlk_script_release##form),\
  [DLK_REDIS_RENEW] = SCRIPT(renew, dlk_script_renew##form),\
  [DLK_REDIS_PROBE] = SCRIPT(probe, dlk_script_probe##form),\
  [DLK_REDIS_INSPECT] = SCRIPT(inspect, dlk_script_inspect##form),\
  [DLK_REDIS_LIST] = SCRIPT(list, dlk_script_list##form),\
  [DLK_REDIS_BREAK] = SCRIPT(break, dlk_script_break##form),\
  [DLK_REDIS_REVOKE] = SCRIPT(revoke, dlk_script_revoke##form),\
  [DLK_REDIS_GUARD] = SCRIPT(guard, dlk_script_guard##form),\
  [DLK_REDIS_CHANGE] = SCRIPT(change, dlk_script_change##form),\
  [DLK_REDIS_DOWNGRADE] = SCRIPT(downgrade, dlk_script_downgrade##form),\
  [DLK_REDIS_PUBLISH] = SCRIPT(publish, dlk_script_publish##form),\
  [DLK_REDIS_ATTACH] = SCRIPT(attach, dlk_script_attach##form),\
  [DLK_REDIS_RENEW1] = SCRIPT(renew1, dlk_script_renew1##form),\
  [DLK_REDIS_RELEASE1] = SCRIPT(release1, dlk_script_release1##form),\
  [DLK_REDIS_VOTE] = SCRIPT(vote, dlk_script_vote##form),\
  [DLK_REDIS_RAISE] = SCRIPT(raise, dlk_script_raise##form),
/* clang-format on */

const struct dlk_redis_script_source dlk_redis_scripts[DLK_REDIS_SCRIPTS] = {
    SCRIPTS()};
const struct dlk_redis_script_source
    dlk_redis_cluster_scripts[DLK_REDIS_SCRIPTS] = {SCRIPTS(_cluster)};
const struct dlk_redis_script_source
    dlk_redis_shard_scripts[DLK_REDIS_SCRIPTS] = {SCRIPTS(_shard)};
