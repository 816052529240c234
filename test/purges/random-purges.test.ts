// Random purges of several tags, by two processes on a real Redis, between random reads.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()

const TAGS = ['a', 'b', 'c', 'd']
/** Each key has its own tags: none, one, or several. */
const TAGS_OF = { plain: [], one: ['a'], other: ['d'], two: ['a', 'b'], all: TAGS } as const
type Key = keyof typeof TAGS_OF

interface Step {
  readonly process: 0 | 1
  /** A read, or a purge of tags. */
  readonly does: { readonly key: Key } | { readonly tags: string[]; readonly soft: boolean }
}

const step: fc.Arbitrary<Step> = fc.record({
  process: fc.constantFrom(0, 1),
  does: fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ key: fc.constantFrom(...(Object.keys(TAGS_OF) as Key[])) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ tags: fc.subarray(TAGS, { minLength: 1 }), soft: fc.boolean() }),
    },
  ),
})

let prefixes = 0

async function run(steps: readonly Step[]): Promise<void> {
  prefixes += 1
  const prefix = `random${prefixes}`
  const open = () => {
    const store = redisStore(new Redis(server.url, { lazyConnect: true }), { prefix, ...PATIENT })
    const stampede = createStampede({ store })
    return { store, stampede, cache: stampede.cache('n', { ttlMs: 60_000 }) }
  }
  const processes = [open(), open()] as const
  /** The number of runs for each key: the version of its value. */
  const runs = new Map<Key, number>()
  const isCurrent = new Set<Key>()
  const purged: number[] = []
  for (const { process, does } of steps) {
    const { stampede, cache, store } = processes[process]
    if ('key' in does) {
      const { key } = does
      const version = (runs.get(key) ?? 0) + (isCurrent.has(key) ? 0 : 1)
      const load = () => {
        runs.set(key, (runs.get(key) ?? 0) + 1)
        return runs.get(key)
      }
      const committed = createGate()
      const off = stampede.on('fill.committed', () => committed.open())
      const value = cache.getOrSet(key, load, { tags: [...TAGS_OF[key]] })
      expect([await value, runs.get(key)]).toEqual([version, version])
      if (!isCurrent.has(key)) await committed.opened
      off()
      isCurrent.add(key)
    } else {
      await stampede.purge({ tags: does.tags }, { soft: does.soft })
      purged.push(does.tags.length)
      for (const key of isCurrent) {
        if (TAGS_OF[key].some((tag) => does.tags.includes(tag))) isCurrent.delete(key)
      }
      const other = processes[1 - process]?.store
      await expect
        .poll(() => other?.position, { interval: 1, timeout: 20_000 })
        .toBe(store.position)
    }
  }
  const [, log] = names(prefix).purges
  const commands = new Map<string, number>()
  for (const [id] of await admin.xrange(log, '-', '+')) {
    const [, random = ''] = id.split('-')
    commands.set(random, (commands.get(random) ?? 0) + 1)
  }
  expect([...commands.values()]).toEqual(purged)
  for (const { stampede } of processes) await stampede.close()
}

it('outdates exactly the entries that have one of the tags, in both processes', async () => {
  const steps = fc.array(step, { minLength: 8, maxLength: 24 })
  await fc.assert(fc.asyncProperty(steps, run), { numRuns: 12, endOnFailure: true })
}, 120_000)
