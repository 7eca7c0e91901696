"""A worker of bench/crowd.lua that uses redis-py's Lock, a peer of dlock's on
Redis without fences and without a queue: who waits asks every 0.1 s.
  peer_redis.py PORT pairs
      acquire and release a lock of its own
  peer_redis.py PORT handover MS
      acquire the lock that all want, hold it for MS, release it"""

import os
import resource
import sys
import time

import redis


def pairs(lock, stop):
    count = 0
    while count == 0 or time.monotonic_ns() < stop:
        lock.acquire()
        lock.release()
        count += 1
    return count, []


def handover(lock, stop, hold):
    count, holds, in_time = 0, [], True
    while in_time:
        lock.acquire()
        came = time.monotonic_ns()
        count += 1
        in_time = came < stop
        if in_time:
            if hold > 0:
                time.sleep(hold / 1000)
            holds.append((came, time.monotonic_ns()))
        lock.release()
    return count, holds


def main(port, verb, *args):
    client = redis.Redis(host="127.0.0.1", port=int(port))
    own = client.lock("bench:py:%d" % os.getpid(), timeout=30)
    with own:
        pass  # connects and loads its scripts
    shared = verb == "handover"
    lock = client.lock("bench:py", timeout=30) if shared else own
    print("ready", flush=True)
    stop = int(sys.stdin.readline())
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic_ns()
    if shared:
        count, holds = handover(lock, stop, float(args[0]))
    else:
        count, holds = pairs(lock, stop)
    took = time.monotonic_ns() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    for came, went in holds:
        print(came, went)
    print("done", count, took, *(round(1e6 * x) for x in (
        after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)),
        after.ru_nvcsw - before.ru_nvcsw, flush=True)


main(*sys.argv[1:])
