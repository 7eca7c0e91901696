"""What the workers of bench/crowd.lua that use a peer of dlock's have in common:
the same loops, clocks and lines as bench/worker.lua. A peer gives run() its
lock for a key, and has it connected by then."""

import resource
import sys
import time


def pairs(lock, stop):
    count = 0
    while count == 0 or time.monotonic_ns() < stop:
        lock.acquire()
        lock.release()
        count += 1
    return count, []


def handoff(lock, stop, hold):
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


def run(lock_of, verb, *args):
    """verb and args: "pairs", a lock of its own; or "handoff" and for how many
    ms the lock that all want is held. lock_of: makes the
    lock on a name, or without one the lock of this process."""
    shared = verb == "handoff"
    lock = lock_of("shared" if shared else None)
    print("ready", flush=True)
    stop = int(sys.stdin.readline())
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic_ns()
    if shared:
        count, holds = handoff(lock, stop, float(args[0]))
    else:
        count, holds = pairs(lock, stop)
    took = time.monotonic_ns() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    for came, went in holds:
        print(came, went)
    print("done", count, took, *(round(1e6 * x) for x in (
        after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)),
        after.ru_nvcsw - before.ru_nvcsw, flush=True)
    sys.stdin.read()
