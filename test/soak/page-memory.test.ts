// The memory of a process, as docs/guide/production.md says, measured on a cache that is full.

import { beforeAll, describe, expect, it } from 'vitest'
import { measured } from '../harness/measured.ts'
import { blocksOf } from '../snippets/blocks.ts'

interface Measured {
  readonly without: number
  readonly withCache: number
  readonly bytes: number
  readonly maxBytes: number
  readonly shown: { readonly entries: number; readonly limit: number; readonly process: number }
}

let found: Measured
beforeAll(async () => {
  const blocks = blocksOf(new URL('../../', import.meta.url), 'docs/guide/production.md')
  const PROGRAM = blocks.find(({ code }) => code.includes('memoryUsage'))?.code
  found = await measured('page-memory.mjs', { PROGRAM })
}, 1_200_000)

describe('a process that fills four times as much as its cache may hold', () => {
  it('takes at most 2.5 times l1.maxBytes more than without a cache', () => {
    const { without, withCache, maxBytes, bytes } = found
    expect(bytes).toBeGreaterThan(0.9 * maxBytes)
    expect(bytes).toBeLessThanOrEqual(maxBytes)
    expect((withCache - without) / maxBytes).toBeLessThan(2.5)
  })

  it('shows this memory by the program of the production checklist', () => {
    const { shown, bytes, maxBytes } = found
    expect(shown).toMatchObject({ entries: bytes, limit: maxBytes })
    expect(shown.process).toBeGreaterThan(bytes)
  })
})
