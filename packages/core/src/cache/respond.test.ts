// Tests of the header fields that all hits of one second share.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { type HeldEntry, type StoredResponse, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import type { CacheConfig } from './cache-options.ts'
import { readyFrom } from './respond.ts'

const NOW = 5_000

function stored(): StoredResponse {
  return {
    type: 'response',
    status: 200,
    fields: ['content-type', 'text/plain'],
    body: Buffer.from('body'),
    initialAgeMs: 0,
    vary: [],
    provenance: UNKNOWN_PROVENANCE,
  }
}

function hit(entry: StoredResponse, cacheName: string | undefined, now: number): readonly string[] {
  const config = { cacheName } as CacheConfig<never>
  const until = NOW + 60_000
  const ends = { staleAt: until, revalidateUntil: until, errorUntil: until, keepUntil: until }
  const held: HeldEntry = { entry, fence: '1', bornAt: NOW, ...ends }
  const facts = { type: 'hit', ttlS: (until - now) / 1000 } as const
  return readyFrom(config, held, entry, facts, now).fields
}

it('the header fields of hits are one shared list only in the same second and cache', () => {
  const entry = stored()
  const first = hit(entry, 'a', NOW + 1)
  expect(first).toEqual([
    ...['content-type', 'text/plain', 'age', '0'],
    ...['cache-status', 'a; hit; ttl=59', 'content-length', '4'],
  ])
  expect(hit(entry, 'a', NOW + 999)).toBe(first)
  expect(hit(entry, 'b', NOW + 999)).toContain('b; hit; ttl=59')
  expect(hit(entry, undefined, NOW + 999)).not.toContain('cache-status')
  expect(hit(entry, 'a', NOW + 1_001)).toEqual(
    expect.arrayContaining(['age', '1', 'a; hit; ttl=58']),
  )
})

it('the shared list of header fields is freed after its entry was dropped', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const lists = Array.from({ length: 10 }, () => new WeakRef(hit(stored(), 'a', NOW)))
  await new Promise(setImmediate)
  collect()
  expect(lists.filter((list) => list.deref() !== undefined)).toEqual([])
})
