"""A worker of bench/crowd.lua that uses redis-py's Lock, a peer of dlock's on
Redis without fences and without a queue: who waits asks every 0.1 s.
PORT, as cluster:PORT, may be that of a cluster's node.
  peer_redis.py PORT pairs
      acquire and release a lock of its own
  peer_redis.py PORT handoff MS
      acquire the lock that all want, hold it for MS, release it"""

import os
import sys

import peer
import redis
import redis.cluster


def main(port, *args):
    name, number = port.rpartition(":")[::2]
    kind = redis.cluster.RedisCluster if name else redis.Redis
    client = kind(host="127.0.0.1", port=int(number))
    client.script_load(client.lock("bench").LUA_RELEASE_SCRIPT)  # on all nodes
    own = client.lock("bench:py:%d" % os.getpid(), timeout=30)
    with own:
        pass  # connects and loads its scripts

    def lock_of(name):
        return client.lock("bench:py", timeout=30) if name else own

    peer.run(lock_of, *args)


main(*sys.argv[1:])
