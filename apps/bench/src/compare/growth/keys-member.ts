// Measures L1 with many keys. Usage: node --expose-gc keys-member.js <keys> <bytes of a value>.
import { setImmediate as turn } from 'node:timers/promises'
import { createStampede } from '@stampede/core'
import { LRUCache } from 'lru-cache'
import { offer } from '../lib/child.ts'
import { medianOf } from '../lib/statistics.ts'
import { memoryInUse } from './memory.ts'

export interface KeysSeen {
  readonly keys: number
  /** Length of the value as JSON. */
  readonly storedBytes: number
  readonly memoryBytes: number
  readonly countedBytes: number
  readonly fillMicros: number
  readonly hitNanos: number
  /** The time of a hit on an LRU in an async function. */
  readonly lruNanos: number
}

type Get = (key: string) => Promise<unknown>

const WARM_UP = 2_000
const HITS = 100_000
const PASSES = 3
/** A server reads few values per turn of the event loop, and they are garbage in the next turn. */
const CALLS_A_TURN = 64

const [, , keys, bytes] = process.argv.map(Number) as [number, number, number, number]

offer({
  async measure(): Promise<KeysSeen> {
    const stampede = createStampede({ l1: { maxBytes: 2 ** 34 } })
    const options = { ttlMs: 3_600_000 }
    const get: Get = (key) => stampede.getOrSet(key, () => made(key), options)
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
    if (entries !== keys + WARM_UP) throw new Error(`${entries} entries of ${keys} are in memory`)
    const hitNanos = await nanosOfHits(get)
    if (stampede.stats().fills.started !== keys + WARM_UP)
      throw new Error('a lookup that should hit was a miss')
    const lruNanos = await nanosOfHits(lruGet())
    const storedBytes = Buffer.byteLength(JSON.stringify(made(keyOf(0))))
    return {
      keys,
      storedBytes,
      memoryBytes,
      countedBytes: counted / entries,
      fillMicros,
      hitNanos,
      lruNanos,
    }
  },
})

const keyOf = (number: number): string => `key:${String(number).padStart(8, '0')}`

function made(key: string): object {
  return { key, text: 'x'.repeat(bytes - 36) }
}

async function nanosOfHits(get: Get): Promise<number> {
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

function lruGet(): Get {
  const cache = new LRUCache<string, object>({ max: keys })
  for (let i = 0; i < keys; i++) cache.set(keyOf(i), made(keyOf(i)))
  return async (key) => cache.get(key)
}
