// The pairs of bench/redlock.lua with the npm library redlock; the same line.
//   redlock_node.mjs URL SECONDS       BENCH_MODULES: where the library is
import { createRequire } from "node:module"

const require = createRequire(process.env.BENCH_MODULES + "/")
const Redis = require("ioredis")
const Redlock = require("redlock").default
const [url, seconds] = process.argv.slice(2)
const clients = url.replace("redlock://", "").split(",")
  .map((address) => new Redis("redis://" + address))
const redlock = new Redlock(clients, { retryCount: -1 })
const now = () => Number(process.hrtime.bigint()) / 1000
const times = []

async function pair() {
  const lock = await redlock.acquire(["bench:redlock"], 1000)
  await lock.release()
}
for (let i = 0; i < 100; i++) await pair()
const start = now(), began = process.cpuUsage()
do {
  const before = now()
  await pair()
  times.push(now() - before)
} while (now() - start < Number(seconds) * 1e6)
const took = (now() - start) / 1e6
const used = process.cpuUsage(began)
times.sort((a, b) => a - b)
const at = (part) => times[Math.ceil(times.length * part) - 1]
console.log(times.length / took, at(0.5), at(0.99),
  (used.user + used.system) / times.length)
process.exit(0)
