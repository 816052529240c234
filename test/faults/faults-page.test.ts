// Checks that CASES.md names a test for each row of docs/evidence/faults.md.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { itIsHeldToTheTests } from '../harness/cases-page.ts'

const PAGE = 'docs/evidence/faults.md'
const numbered = (letter: string, length: number) =>
  Array.from({ length }, (_, i) => `${letter}${i + 1}`)
const CASES = [...numbered('F', 31), ...numbered('S', 5)]

itIsHeldToTheTests('test/faults/CASES.md', CASES)

const rowsOf = (path: string): string[][] =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => /^\| [FS]\d+ \|/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )

it(`${PAGE} says for every fault what clients and operators see`, () => {
  const rows = rowsOf(PAGE)
  expect(rows.map(([id]) => id)).toEqual(CASES)
  const tested = rowsOf('test/faults/CASES.md')
  expect(rows.map((row) => row.slice(0, 2))).toEqual(tested.map((row) => row.slice(0, 2)))
  for (const row of rows) {
    expect(row.length, row[0]).toBe(row[0]?.startsWith('F') ? 4 : 2)
    for (const cell of row) expect(cell, row[0]).not.toBe('')
  }
  for (const [id, , shown] of tested)
    expect(shown, id).toMatch(/"[^"]+" \(`[^`]+`\)|not shown by a test|see guide/)
})
