// Compares the bytes that each structure counts with the memory it takes. Bodies have 20 B, 2 kB
// and 200 kB, made as an application or a socket makes them. Run with --expose-gc and REDIS_URL.
// Prints one line of JSON.
// @ts-check
import { once } from 'node:events'
import { Agent, createServer, get } from 'node:http'
import { createStampede, memoryStore } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { Attempts } from '../../../packages/core/dist/idempotency/attempts.js'
import { ownKept, Seal } from '../../../packages/core/dist/idempotency/kept-response.js'
import { Deadlines } from '../../../packages/core/dist/lease/deadlines.js'
import { MemoryIdempotency } from '../../../packages/core/dist/memory/memory-idempotency.js'
import { systemClock } from '../../../packages/core/dist/ports/clock.js'
import { idempotencyOf } from '../../../packages/core/dist/stampede.js'

/** Enough of each structure to exceed what the rest of the process takes meanwhile. */
const AT_LEAST = 6 * 1024 * 1024
const ignore = () => {}

/** Text that no other string contains. @param {number} length */
function text(length) {
  let made = ''
  while (made.length < length) made += Math.random().toString(36).slice(2)
  return Buffer.from(made.slice(0, length), 'latin1').toString('latin1')
}

/** A slice of a longer text keeps all of it in memory. @param {number} length */
const part = (length) => text(length + 2_000).slice(1_000, 1_000 + length)
const hash = () => text(43)

/** Small buffers are views of a buffer of 8 KiB. @param {number} size */
const body = (size) => Buffer.from(text(size))

/** @param {number} size */
const kept = (size) => ({
  type: /** @type {const} */ ('response'),
  status: 201,
  headers: /** @type {[string, string][]} */ ([['location', part(40)]]),
  body: body(size),
})
const fingerprints = () => ({ exact: hash(), canonical: hash() })

const beforeRedis = () =>
  createStampede({
    store: redisStore(new Redis(process.env.REDIS_URL ?? '', { lazyConnect: true })),
  })

/** @typedef {{ add(): unknown, bytes(): number, close?(): unknown }} Filled */

/** @type {Record<string, (size: number) => Filled | Promise<Filled>>} */
const STRUCTURES = {
  replays(size) {
    const deadlines = new Deadlines(systemClock)
    const waiters = { wake: ignore }
    const attempts = new Attempts({ clock: systemClock, deadlines, store: {}, waiters })
    return {
      add: () =>
        attempts.addDone(
          { key: hash(), fingerprints: fingerprints() },
          ownKept(kept(size)),
          60_000,
          attempts.sequence,
        ),
      bytes: () => attempts.done.calculatedSize,
    }
  },

  'results that could not be stored'(size) {
    const store = memoryStore()
    const { idempotency } = store
    idempotency.finish = async () => {
      throw new Error('away')
    }
    const stampede = createStampede({ store })
    const { attempts } = idempotencyOf(stampede)
    // The memory store has a record of each entry, too, which is counted there.
    const records = /** @type {MemoryIdempotency} */ (idempotency)
    return {
      add: () => stampede.idempotent(hash(), () => body(size), { retentionMs: 60_000 }),
      bytes: () => attempts.unstoredBytes + records.size.bytes,
      close: () => stampede.close(),
    }
  },

  'results that the memory store holds as they are'(size) {
    const store = memoryStore()
    const stampede = createStampede({ store })
    const { attempts } = idempotencyOf(stampede)
    const records = /** @type {MemoryIdempotency} */ (store.idempotency)
    return {
      add: () => stampede.idempotent(hash(), () => body(size), { retentionMs: 60_000 }),
      // The results are those of the records, so only the entries of the map are added.
      bytes: () => records.size.bytes + attempts.done.size * 300,
      close: () => stampede.close(),
    }
  },

  'values in the memory store'(size) {
    const stampede = createStampede({ store: memoryStore() })
    return {
      add: () => stampede.getOrSet(hash(), () => body(size), { ttlMs: 60_000 }),
      bytes: () => stampede.stats().l1.bytes,
      close: () => stampede.close(),
    }
  },

  'values in the L1 before Redis'(size) {
    const stampede = beforeRedis()
    let n = 0
    return {
      add() {
        n += 1
        const tags = n % 2 === 0 ? [`wide √ ${n % 50}`, `number ${n}`] : []
        const make = () => ({ n, wide: '√'.repeat(n % 20), text: text(size) })
        return stampede.getOrSet(hash(), make, { ttlMs: 60_000, tags })
      },
      bytes: () => stampede.stats().l1.bytes,
      close: () => stampede.close(),
    }
  },

  async 'pages in the L1 before Redis'(size) {
    const stampede = beforeRedis()
    const app = express()
    // The junk is in the URL, and not in the key.
    app.use(stampedeCache({ stampede, ttlMs: 60_000, query: ['n'], vary: ['x-lang'] }))
    app.use((_req, res) => {
      for (let i = 0; i < 8; i++) res.set(`x-field-${i}`, text(40))
      res.set('x-wide', 'é'.repeat(30)).send(text(size))
    })
    const server = createServer(app).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
    const agent = new Agent({ keepAlive: true })
    return {
      async add() {
        const path = `/?n=${hash()}&junk=${'j'.repeat(2_000)}`
        const [response] = await once(get({ host: '127.0.0.1', port, path, agent }), 'response')
        for await (const _ of response);
      },
      bytes: () => stampede.stats().l1.bytes,
      async close() {
        agent.destroy()
        server.close()
        await stampede.close()
      },
    }
  },

  'idempotency keys in memory'(size) {
    const store = new MemoryIdempotency()
    const seal = new Seal(['k'.repeat(32)])
    const hooks = { onWake: ignore, onSettled: ignore, onGap: ignore, onBack: ignore }
    store.attach({ clock: systemClock, ...hooks, onLost: ignore, onError: ignore })
    const rules = { leaseMs: 1_000, retentionMs: 60_000, maxAttempts: 3, keepUncertainMs: 60_000 }
    return {
      async add() {
        const key = hash()
        const prints = fingerprints()
        const request = { token: hash(), fingerprints: prints, wait: false, ...rules }
        const reply = await store.begin(key, request)
        if (reply.status !== 'begun') throw new Error(reply.status)
        // A small buffer that shares its memory with others, as a seal makes it.
        await store.keepStep(reply.grant, 'charge', seal.seal(key, body(20)))
        const frame = seal.seal(key, body(size))
        await store.finish(reply.grant, { as: 'completed', frame, keepMs: 60_000 }, prints)
      },
      bytes: () => store.size.bytes,
    }
  },
}

/**
 * The smallest of several readings after a collection, because timers produce garbage in between.
 */
async function used() {
  let least = Number.POSITIVE_INFINITY
  // V8 frees buffers on another thread, which may be slow on a busy machine.
  for (let sameFor = 0, i = 0; sameFor < 8 && i < 200; i++) {
    globalThis.gc?.()
    const { heapUsed, external } = process.memoryUsage()
    sameFor = heapUsed + external < least - 50_000 ? 0 : sameFor + 1
    least = Math.min(least, heapUsed + external)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return least
}

/** @param {(size: number) => Filled | Promise<Filled>} make @param {number} size */
async function measure(make, size) {
  const warm = await make(size)
  for (let i = 0; i < 200; i++) await warm.add()
  await warm.close?.()
  const { add, bytes, close } = await make(size)
  const before = await used()
  let entries = 0
  for (; bytes() < AT_LEAST; entries++) await add()
  const grown = (await used()) - before
  const counted = bytes()
  await close?.()
  return { entries, counted, grown }
}

/** @type {Record<string, unknown>} */
const measured = {}
const only = process.argv[2] ?? ''
for (const [name, make] of Object.entries(STRUCTURES)) {
  if (!name.includes(only)) continue
  for (const size of [20, 2_000, 200_000]) {
    measured[`${name}, ${size} bytes`] = await measure(make, size)
  }
}
console.log(JSON.stringify(measured))
process.exit(0)
