// Holds docs/faults.md to the tests.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { itIsHeldToTheTests } from '../harness/cases-page.ts'

const PAGE = 'docs/faults.md'
const numbered = (letter: string, length: number) =>
  Array.from({ length }, (_, i) => `${letter}${i + 1}`)

itIsHeldToTheTests(PAGE, [...numbered('F', 31), ...numbered('S', 5)])

it(`every row of ${PAGE} says what is seen, and what shows it or that nothing does`, () => {
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
