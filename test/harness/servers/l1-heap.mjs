// A process that fills ten times as much as its memory cache may hold, through Redis, and measures
// the memory used. Run with --expose-gc and REDIS_URL. Prints one line of JSON.
// @ts-check
import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'

const MIB = 1024 * 1024
const BUDGET = 16 * MIB
const MAX_ENTRY = 256 * 1024
const WAVES = 45

const redis = new Redis(process.env.REDIS_URL ?? '')
const stampede = createStampede({
  store: redisStore(redis),
  l1: { maxBytes: BUDGET, maxEntries: 1_000_000, maxEntryBytes: MAX_ENTRY },
})
/** @type {string[]} Tiers of the hits since it was last emptied. */
const tiers = []
stampede.on('entry.hit', ({ tier }) => tiers.push(tier))

/**
 * Different text for each number, without shared memory.
 * @param {number} seed
 * @param {number} length
 */
function text(seed, length) {
  let state = seed + 1
  let made = ''
  while (made.length < length) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    made += state.toString(36)
  }
  return made.slice(0, length)
}

const app = express()
const vary = stampedeCache({ stampede, ttlMs: 3_600_000, query: ['n'], vary: ['x-lang'] })
app.get('/:size', vary, (req, res) => {
  const [size, n] = [Number(req.params.size), Number(req.query.n)]
  for (let i = 0; i < 8; i++) res.set(`x-field-${i}`, text(n + i, 40))
  res.set('x-wide', 'é'.repeat(30)).send(text(n, size))
})
const server = createServer(app).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())

/** The `junk` is in the URL, and not in the key. @param {number} size @param {number} n */
async function fetchPage(size, n) {
  const path = `/${size}?n=${n}&junk=${'j'.repeat(2_000)}`
  const headers = { 'x-lang': n % 2 === 0 ? 'de' : 'fr' }
  const request = get({ host: '127.0.0.1', port, path, headers, agent: false })
  const [response] = await once(request, 'response')
  let bytes = 0
  for await (const chunk of response) bytes += chunk.length
  return bytes
}

/** @param {string} kind @param {number} n @param {() => unknown} make */
async function value(kind, n, make) {
  const tags = [`wide √ ${n % 50}`, `number ${n}`]
  const options = { ttlMs: 3_600_000, tags: n % 2 === 0 ? tags : [] }
  const made = await stampede.getOrSet(`${kind}:${n}`, make, options)
  return made instanceof Uint8Array ? made.byteLength : JSON.stringify(made).length
}

/** @param {number} n */
const row = (n) => ({ id: n, name: text(n, 12), price: n / 3, wide: '√'.repeat(n % 20) })

/** Requests one entry of each kind, and returns their size. @param {number} n */
async function wave(n) {
  let bytes = 0
  for (let i = 0; i < 400; i++) bytes += await value('tiny', n * 400 + i, () => row(n + i))
  for (let i = 0; i < 40; i++) {
    const many = () => Array.from({ length: 300 }, (_, j) => row(n + i + j))
    bytes += await value('list', n * 40 + i, many)
  }
  for (let i = 0; i < 20; i++) {
    bytes += await value('bytes', n * 20 + i, () => new Uint8Array(1_000 + 97 * i))
    bytes += await fetchPage(300, n * 20 + i)
    bytes += await fetchPage(160_000, n * 20 + i)
  }
  return bytes
}

async function used() {
  for (let i = 0; i < 6; i++) {
    globalThis.gc?.()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** @param {() => Promise<unknown>} ask */
async function tiersOf(ask) {
  await ask()
  // The client has its response before the store has the entry.
  while (stampede.stats().active.flights > 0) await new Promise((resolve) => setImmediate(resolve))
  tiers.length = 0
  await ask()
  await ask()
  return tiers.splice(0)
}

// By now the code is compiled and the connections are open. A few entries are in memory already.
await wave(0)
const before = { used: await used(), bytes: stampede.stats().l1.bytes }
let filled = 0
for (let n = 1; n <= WAVES; n++) {
  // Requested twice, so that parsed values are kept, if any are kept.
  filled += await wave(n)
  await wave(n)
  tiers.length = 0
}
const entries = stampede.stats().l1.entries
const large = await tiersOf(() => fetchPage(MAX_ENTRY + 1, 1))
const small = await tiersOf(() => fetchPage(1_000, 1))
const { bytes } = stampede.stats().l1
const grown = (await used()) - before.used
const counted = bytes - before.bytes
console.log(
  JSON.stringify({ budget: BUDGET, filled, entries, bytes, grown, counted, large, small }),
)
await stampede.close()
redis.disconnect()
server.close()
