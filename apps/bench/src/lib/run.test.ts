import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type RowSpec, ratio, runRows } from './rows.ts'
import { inJson, publish, readArguments } from './run.ts'

describe('a published run', () => {
  it('has its raw results beside its page', () => {
    const folder = mkdtempSync(join(tmpdir(), 'stampede-publish-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    publish(join(folder, 'docs'), 'page', '# Page\n', { rates: [1, 2] })
    expect(readFileSync(join(folder, 'docs/page.md'), 'utf8')).toBe('# Page\n')
    const raw = JSON.parse(readFileSync(join(folder, 'docs/page.json'), 'utf8'))
    expect(raw).toEqual({ rates: [1, 2] })
  })

  it('has each list of numbers on one line, with five significant digits', () => {
    const text = inJson({ rates: [1234.56789, -0.000123456, 7], name: 'a, [1, 2]', none: [] })
    expect(text).toBe(
      '{\n "rates": [1234.6, -0.00012346, 7],\n "name": "a, [1, 2]",\n "none": []\n}\n',
    )
  })
})

describe('the arguments of a run', () => {
  it('are ids, a folder for the page, and whether the run is short', () => {
    const given = readArguments(['a', '--out', 'there', 'b', '--only', 'c,d', '--quick'])
    expect(given).toEqual({ folder: 'there', ids: new Set(['a', 'b', 'c', 'd']), isQuick: true })
    expect(readArguments([])).toEqual({ folder: undefined, ids: new Set(), isQuick: false })
    expect(() => readArguments(['--out'])).toThrow('--out needs a folder')
    expect(() => readArguments(['--fast'])).toThrow('unknown argument --fast')
  })
})

describe('the rows of a table', () => {
  it('take turns, in reverse order in every second round', async () => {
    const turns: string[] = []
    const spec = (id: string): RowSpec => ({ id, name: id, kind: 'peer' })
    const rows = await runRows({
      ...{ title: 'test', rows: [spec('a'), spec('b')], rounds: 3 },
      setUp: async ({ id }) => ({
        measure: async () => ({ rate: (turns.push(id) * 10) % 70 }),
        [Symbol.asyncDispose]: async () => void turns.push(`end of ${id}`),
      }),
    })
    expect(turns.join(' ')).toBe('a b b a a b end of a end of b')
    expect(rows.map(({ rounds }) => rounds.map(({ rate }) => rate))).toEqual([
      [10, 40, 50],
      [20, 30, 60],
    ])
    // 20 ÷ 10, 30 ÷ 40, 60 ÷ 50: the ratios are taken within each round.
    expect(ratio(rows, 'b', 'a', 'rate')).toBe(1.2)
  })
})
