// Measures L1: the memory of many values or responses, and hits among many keys.
import { setImmediate as turn } from 'node:timers/promises'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { LRUCache } from 'lru-cache'
import { listen } from '../lib/http.ts'
import { product } from '../lib/product.ts'
import { medianOf } from '../lib/statistics.ts'

type Get = (key: string) => Promise<unknown>

const WARM_UP = 2_000
const HITS = 100_000
const PASSES = 3
/** A server reads few values per turn of the event loop, and they are garbage in the next turn. */
const CALLS_A_TURN = 64
const ttlMs = 3_600_000

/** Memory of this process after a garbage collection. Needs --expose-gc. */
function memoryInUse(): number {
  if (globalThis.gc === undefined) throw new Error('run with --expose-gc')
  for (let i = 0; i < 3; i++) globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const keyOf = (number: number): string => `key:${String(number).padStart(8, '0')}`

async function nanosOfHits(get: Get, keys: number): Promise<number> {
  const passes: number[] = []
  for (let pass = 0; pass <= PASSES; pass++) {
    const since = performance.now()
    for (let i = 0; i < HITS; i++) {
      await get(keyOf((i * 7_919) % keys))
      if (i % CALLS_A_TURN === 0) await turn()
    }
    passes.push(((performance.now() - since) * 1e6) / HITS)
  }
  return medianOf(passes.slice(1))
}

export async function start() {
  const stampede = createStampede({ l1: { maxBytes: 2 ** 34 } })
  const app = express()
  app.get('/products/:id', stampedeCache({ stampede, ttlMs }), (_req, res) => {
    res.json(product)
  })
  const port = await listen(app)
  return {
    port: () => port,
    seen() {
      const { entries, bytes } = stampede.stats().l1
      return { entries, countedBytes: bytes, memoryBytes: memoryInUse() }
    },
    async keys(keys: number, bytes: number) {
      const made = (key: string) => ({ key, text: 'x'.repeat(bytes - 36) })
      const get: Get = (key) => stampede.getOrSet(key, () => made(key), { ttlMs })
      for (let i = 0; i < WARM_UP; i++) await get(`warm-up:${i}`)
      await turn()
      const before = { memory: memoryInUse(), at: performance.now() }
      for (let i = 0; i < keys; i++) {
        await get(keyOf(i))
        if (i % CALLS_A_TURN === 0) await turn()
      }
      const fillMicros = ((performance.now() - before.at) * 1_000) / keys
      await turn()
      const memoryBytes = (memoryInUse() - before.memory) / keys
      const { entries, bytes: counted } = stampede.stats().l1
      const hitNanos = await nanosOfHits(get, keys)
      const { started } = stampede.stats().fills
      if (entries !== keys + WARM_UP || started !== entries)
        throw new Error(`${entries} entries and ${started} fills of ${keys} keys`)
      const lru = new LRUCache<string, object>({ max: keys })
      for (let i = 0; i < keys; i++) lru.set(keyOf(i), made(keyOf(i)))
      const lruNanos = await nanosOfHits(async (key) => lru.get(key), keys)
      const storedBytes = Buffer.byteLength(JSON.stringify(made(keyOf(0))))
      const countedBytes = counted / entries
      return { keys, storedBytes, memoryBytes, countedBytes, fillMicros, hitNanos, lruNanos }
    },
  }
}
