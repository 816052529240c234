import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { shared, toFields } from './http/headers.ts'
import { Recent } from './recent.ts'
import { createStampede } from './stampede.ts'

it('RecentMap drops the oldest key when it is full, and none for a known key', () => {
  const recent = new Recent<number>(2)
  recent.set('a', 1)
  recent.set('b', 2)
  recent.set('a', 3)
  expect([recent.get('a'), recent.get('b')]).toEqual([3, 2])
  recent.set('c', 4)
  expect([recent.get('a'), recent.get('b'), recent.get('c')]).toEqual([undefined, 2, 4])
})

describe('the memory of recent texts', () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const usedBytes = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const LONG = 50_000
  /** A text of its own, and a slice of it that V8 does not copy. */
  const long = (i: number) => Buffer.from(`part.of.a.long.text.${i},${'x'.repeat(LONG)}`).toString()
  const part = (i: number) => long(i).split(',')[0] as string

  it('keeps only a field, not the larger text around the field', () => {
    const before = usedBytes()
    for (let i = 0; i < 200; i++) shared(part(i))
    expect(usedBytes() - before).toBeLessThan(20 * LONG)
  })

  it("keeps only an entry's long field, not the larger text around the field", () => {
    const before = usedBytes()
    const kept = Array.from({ length: 200 }, (_, i) =>
      toFields([['content-security-policy', long(i).slice(0, 100)]]),
    )
    expect(usedBytes() - before).toBeLessThan(20 * LONG)
    expect(kept).toHaveLength(200)
  })

  it('keeps only a key, not the larger text around the key, in L1 and in the memory store', async () => {
    const stampede = createStampede()
    const before = usedBytes()
    for (let i = 0; i < 200; i++) await stampede.getOrSet(part(i), () => 1, { ttlMs: 60_000 })
    expect(usedBytes() - before).toBeLessThan(40 * LONG)
    await stampede.close()
  })
})
