// A process that gets a flood of requests, no two of them equal, and measures the memory that they
// leave. Run with --expose-gc, KEYS and REQUESTS. Prints one line of JSON: MiB kept after each kind
// of flood, and the sizes of all maps.
// @ts-check
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { createStampede, memoryStore } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { createLocks } from '@stampede/locks'
import express from 'express'

const MIB = 1024 * 1024
const WARM_UP = 250
const KEYS = Number(process.env.KEYS)
const REQUESTS = Number(process.env.REQUESTS)
/** The memory budget of every long-lived cache here. */
const BUDGET = 4 * MIB

const stampede = createStampede({
  store: memoryStore({ maxBytes: BUDGET }),
  l1: { maxBytes: BUDGET, maxEntries: 1_000_000 },
})

const app = express().disable('x-powered-by')
app.post('/orders', idempotency({ stampede, scope: () => 'all' }))
app.use(stampedeCache({ stampede, ttlMs: 3_600_000, tags: [], negativeTtlMs: 60_000 }))
app.use((req, res) => {
  res.set({ 'X-Answered': '1', Vary: 'X-Lang' })
  if (req.path === '/cookie') res.set('Set-Cookie', 'a=1')
  if (req.path === '/tagged') res.set('Surrogate-Key', `tag-${req.query.i}`)
  res.status(req.path === '/fail' ? 503 : req.path === '/none' ? 404 : 200).send('ok')
})
const server = createServer(app).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())

/**
 * Sends pipelined requests, a hundred at a time.
 * @param {(i: number) => string} requestOf
 * @param {number} count
 * @param {number} first
 */
async function send(requestOf, count, first) {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  let answered = 0
  let rest = ''
  socket.setEncoding('latin1').on('data', (text) => {
    const parts = (rest + text).split(/x-answered/i)
    answered += parts.length - 1
    rest = (parts.at(-1) ?? '').slice(-20)
    socket.emit('some')
  })
  for (let i = 0; i < count; i += 100) {
    const end = Math.min(count, i + 100)
    let batch = ''
    for (let j = i; j < end; j++) batch += requestOf(first + j)
    socket.write(batch)
    while (answered < end) await once(socket, 'some')
  }
  socket.destroy()
  // A client has its response before the entry is stored.
  while (stampede.stats().active.flights > 0) await new Promise((resolve) => setImmediate(resolve))
}

const JUNK = 'j'.repeat(4_000)
/** @param {string} path @param {string} lang */
const page = (path, lang) => (/** @type {number} */ i) =>
  `GET ${path}?i=${i}&junk=${JUNK} HTTP/1.1\r\nHost: shop.test\r\nX-Lang: ${lang}\r\n\r\n`
/** Requests each page in two languages, one after the other. @param {number} i */
const variant = (i) => page('/varied', i % 2 === 0 ? 'de' : 'fr')(i >> 1)
/** @param {number} i */
const unsafe = (i) => `DELETE /ok/${i}/${JUNK} HTTP/1.1\r\nHost: shop.test\r\n\r\n`
/** @param {number} i */
const order = (i) =>
  `POST /orders HTTP/1.1\r\nHost: shop.test\r\nIdempotency-Key: key-${i}\r\nContent-Length: 0\r\n\r\n`

/** @param {number} count @param {number} first */
async function keys(count, first) {
  const options = Object.freeze({ ttlMs: 3_600_000 })
  for (let i = 0; i < count; i += 1_000) {
    const some = Array.from({ length: Math.min(1_000, count - i) }, (_, j) => first + i + j)
    await Promise.all(some.map((j) => stampede.getOrSet(`key:${j}`, () => j, options)))
  }
}

/** @param {number} count @param {number} first */
async function failures(count, first) {
  const options = Object.freeze({ ttlMs: 3_600_000 })
  const fail = () => Promise.reject(new Error('no'))
  for (let i = 0; i < count; i++) {
    await stampede.getOrSet(`failing:${first + i}`, fail, options).catch(() => {})
  }
}

const MEGABYTE = 'm'.repeat(MIB)
/** @param {number} count @param {number} first */
async function hugeKeys(count, first) {
  for (let i = first; i < first + count; i++) {
    const tags = Array.from({ length: 2 }, (_, tag) => `${tag}${MEGABYTE}${i}`)
    await stampede.getOrSet(`${i}${MEGABYTE}`, () => i, { ttlMs: 3_600_000, tags })
    await stampede.purge({ key: `${i}${MEGABYTE}` })
    await stampede.purge({ tag: `${i}${MEGABYTE}` })
  }
}

const locks = createLocks({ store: memoryStore() })
/** @param {number} count @param {number} first */
async function released(count, first) {
  for (let i = 0; i < count; i++) await (await locks.acquire(`lock:${first + i}`)).release()
}

let later = 0
const abandonedLocks = memoryStore().locks
abandonedLocks.attach({
  clock: { now: () => later, wallNow: () => later, setTimer: () => ({ cancel() {} }) },
  onGrant() {},
  onGap() {},
  onLost() {},
  onError() {},
})
/**
 * Takes locks, and drops the leases without a release.
 * @param {number} count
 * @param {number} first
 */
async function abandoned(count, first) {
  for (let i = first; i < first + count; i++) {
    later += 1_000
    await abandonedLocks.acquire(`lock:${i}`, { token: `token ${i}`, leaseMs: 5_000, queue: false })
  }
}

async function used() {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.()
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** @type {Record<string, (count: number, first: number) => Promise<unknown>>} */
const floods = {
  keys,
  failures: (count, first) => failures(count / 10, first),
  pages: (count, first) => send(page('/ok', 'de'), count, first),
  variants: (count, first) => send(variant, count, first),
  tagged: (count, first) => send(page('/tagged', 'de'), count, first),
  none: (count, first) => send(page('/none', 'de'), count, first),
  cookies: (count, first) => send(page('/cookie', 'de'), count, first),
  errors: (count, first) => send(page('/fail', 'de'), count, first),
  unsafe: (count, first) => send(unsafe, count, first),
  orders: (count, first) => send(order, count, first),
  huge: (count, first) => hugeKeys(count / 50, first),
  locks: released,
  abandoned: (count, first) => abandoned(count * 20, first),
}

// By now the code is compiled, and the caches are full.
for (const flood of Object.values(floods)) await flood(WARM_UP, 0)
await keys(20_000, WARM_UP)
/** @type {Record<string, number>} */
const kept = {}
for (const [name, flood] of Object.entries(floods)) {
  const before = await used()
  await flood(name === 'keys' ? KEYS : REQUESTS, 100_000)
  kept[name] = Math.round(((await used()) - before) / (MIB / 100)) / 100
}
const { l1, active, unleased, idempotency: keyed } = stampede.stats()
console.log(JSON.stringify({ budget: BUDGET, kept, l1, active, unleased, keyed }))
await locks.close()
await stampede.close()
server.closeAllConnections()
server.close()
