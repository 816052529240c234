// The memory of a process, as docs/guide/production.md says, measured on a cache that is full.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { blocksOf } from '../snippets/blocks.ts'

interface Measured {
  readonly without: number
  readonly withCache: number
  readonly bytes: number
  readonly maxBytes: number
  readonly shown: { readonly entries: number; readonly limit: number; readonly process: number }
}

let measured: Measured
beforeAll(async () => {
  const blocks = blocksOf(new URL('../../', import.meta.url), 'docs/guide/production.md')
  const PROGRAM = blocks.find(({ code }) => code.includes('memoryUsage'))?.code
  const script = fileURLToPath(new URL('../harness/servers/page-memory.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [script], {
    env: { ...process.env, PROGRAM },
    timeout: 170_000,
    killSignal: 'SIGKILL',
  })
  measured = JSON.parse(stdout)
}, 180_000)

describe('a process that fills four times as much as its cache may hold', () => {
  it('takes at most 2.5 times l1.maxBytes more than without a cache', () => {
    const { without, withCache, maxBytes, bytes } = measured
    expect(bytes).toBeGreaterThan(0.9 * maxBytes)
    expect((withCache - without) / maxBytes).toBeLessThan(2.5)
  })

  it('shows this memory by the program of the production checklist', () => {
    const { shown, bytes, maxBytes } = measured
    expect(shown).toMatchObject({ entries: bytes, limit: maxBytes })
    expect(shown.process).toBeGreaterThan(bytes)
  })
})
