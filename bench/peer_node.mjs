// A worker of bench/crowd.lua that uses a lock of the npm registry, a peer of
// dlock's on Redis; the loops, clocks and lines are those of bench/peer.py.
//   peer_node.mjs LIBRARY PORT handoff MS      LIBRARY: redlock, redis-semaphore
import { createRequire } from "node:module"
import { createInterface } from "node:readline"

const require = createRequire(process.env.BENCH_MODULES + "/")
const Redis = require("ioredis")
const [library, port, , hold] = process.argv.slice(2)
const client = new Redis({ host: "127.0.0.1", port: Number(port) })
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const now = () => process.hrtime.bigint()

const makers = {
  "redlock": () => {
    const Redlock = require("redlock").default
    const redlock = new Redlock([client], { retryCount: -1, retryDelay: 20,
      retryJitter: 20 })
    let lock
    return {
      async acquire() { lock = await redlock.acquire(["bench:redlock"], 30000) },
      async release() { await lock.release() },
    }
  },
  "redis-semaphore": () => {
    const { Mutex } = require("redis-semaphore")
    const mutex = new Mutex(client, "bench", { lockTimeout: 30000,
      acquireTimeout: 60000 })
    return { acquire: () => mutex.acquire(), release: () => mutex.release() }
  },
}

const lock = makers[library]()
await client.ping()
console.log("ready")
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const stop = BigInt((await lines.next()).value)
const before = process.resourceUsage()
const start = now()
const holds = []
let count = 0
for (let inTime = true; inTime;) {
  await lock.acquire()
  const came = now()
  count++
  inTime = came < stop
  if (inTime) {
    if (Number(hold) > 0) await sleep(Number(hold))
    holds.push([came, now()])
  }
  await lock.release()
}
const took = now() - start
const after = process.resourceUsage()
for (const [came, went] of holds) console.log(`${came} ${went}`)
console.log(["done", count, took, after.userCPUTime - before.userCPUTime,
  after.systemCPUTime - before.systemCPUTime,
  after.voluntaryContextSwitches - before.voluntaryContextSwitches].join(" "))
await lines.next()
process.exit(0)
