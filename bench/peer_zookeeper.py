"""A worker of bench/crowd.lua that uses kazoo, a peer of dlock's on ZooKeeper
with a queue in order as well.
  peer_zookeeper.py HOST:PORT pairs
      acquire and release a lock of its own
  peer_zookeeper.py HOST:PORT handoff MS
      acquire the lock that all want, hold it for MS, release it"""

import os
import sys

import peer
from kazoo.client import KazooClient


def main(address, *args):
    client = KazooClient(hosts=address)
    client.start()
    with client.Lock("/kazoo/%d" % os.getpid()):
        pass  # makes its parents
    peer.run(lambda name: client.Lock("/kazoo/%s" % (name or os.getpid())),
             *args)
    client.stop()


main(*sys.argv[1:])
