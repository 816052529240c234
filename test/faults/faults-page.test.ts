// Checks that docs/faults.md names a test for each row.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { itIsHeldToTheTests } from '../harness/cases-page.ts'

const PAGE = 'docs/faults.md'
const numbered = (letter: string, length: number) =>
  Array.from({ length }, (_, i) => `${letter}${i + 1}`)

itIsHeldToTheTests(PAGE, [...numbered('F', 31), ...numbered('S', 5)])

it(`${PAGE} says in every row what a caller sees, and names a test or says that none exists`, () => {
  const rows = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => /^\| F\d+ \|/.test(line))
  for (const row of rows) {
    const [fault, client, operator, shown, ...rest] = row.split('|').slice(2, -1)
    expect(rest, row).toEqual([])
    for (const cell of [fault, client, operator]) expect(cell?.trim(), row).not.toBe('')
    expect(shown, row).toMatch(/"[^"]+" \(`[^`]+`\)|not shown by a test|see guide/)
  }
})
