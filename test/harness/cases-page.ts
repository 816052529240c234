// Checks a page of numbered cases: it has a row for each case, and every quoted title exists in the
// named file.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const root = new URL('../..', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')

/** `"one", "another" (`file`)`: titles, and the file that contains all of them. */
const QUOTED = /((?:"[^"]+"(?:, )?)+) \(`([^`]+)`\)/g

/**
 * Rows are `| number | case | what shows it |`. If numbers begin with letters, `cases` lists them
 * all.
 */
export function itIsHeldToTheTests(page: string, cases: number | readonly string[]): void {
  const expected =
    typeof cases === 'number' ? Array.from({ length: cases }, (_, i) => String(i + 1)) : cases
  const rows = read(page)
    .split('\n')
    .filter((line) => /^\| [A-Z]?\d+ \|/.test(line))

  it(`${page} has a row for each of its ${expected.length} cases, each with a test or a reason`, () => {
    expect(rows.map((row) => row.split('|')[1]?.trim())).toEqual(expected)
    for (const row of rows) expect(row.split('|')[3]?.trim().length, row).toBeGreaterThan(20)
  })

  it(`every title that ${page} quotes is that of a test in the file it names`, () => {
    const missing: string[] = []
    for (const row of rows) {
      for (const [, titles = '', file = ''] of row.matchAll(QUOTED)) {
        const text = read(file)
        for (const [, title = ''] of titles.matchAll(/"([^"]+)"/g)) {
          if (!text.includes(`'${title}'`)) missing.push(`${file}: ${title}`)
        }
      }
      // No quotation mark is left, so no quotation was missed.
      expect(row.replaceAll(QUOTED, ''), row).not.toContain('"')
    }
    expect(missing).toEqual([])
  })
}
