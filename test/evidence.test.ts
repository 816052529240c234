// Checks the pages of docs/evidence: their length and parts, copied tables, counts of mutants.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { copyTables, evidencePages } from '../tools/evidence.mjs'

const ROOT = new URL('..', import.meta.url)
const MOST_WORDS = 14_000
const PARTS = ['Claim', 'Method', 'Command', 'Figures', 'Not known']

const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, ROOT)), 'utf8')
const pages = evidencePages().filter((path) => !path.endsWith('README.md'))

describe('docs/evidence', () => {
  it(`has at most ${MOST_WORDS} words`, () => {
    const words = evidencePages().flatMap((path) => read(path).split(/\s+/).filter(Boolean))
    expect(words.length).toBeLessThanOrEqual(MOST_WORDS)
  })

  it.each(pages)(
    'says in %s what is claimed, how it is measured, and what is not known',
    (path) => {
      const headings = [...read(path).matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
      expect(headings).toEqual(PARTS)
    },
  )

  it('is listed in its index', () => {
    const listed = [...read('docs/evidence/README.md').matchAll(/\]\(([\w-]+\.md)\)/g)]
    expect(listed.map(([, name]) => `docs/evidence/${name}`).sort()).toEqual(pages.sort())
  })

  it('has the tables of the published results', () => {
    expect(copyTables(true)).toEqual([])
    expect(pages.join('').length).toBeGreaterThan(0)
    const copies = pages.flatMap((path) => [...read(path).matchAll(/<!-- copy of /g)])
    expect(copies.length).toBeGreaterThan(8)
  })
})

/** Rows of the table of mutants, and how many of them have the mark. */
function mutantsOf(page: string, mark: string): { all: number; marked: number } {
  const [, table = ''] =
    /<!-- mutants: begin -->([\s\S]*)<!-- mutants: end -->/.exec(read(page)) ?? []
  const rows = table.split('\n').filter((line) => line.startsWith('| ') && !/^\| mutant/.test(line))
  return { all: rows.length, marked: rows.filter((row) => row.includes(mark)).length }
}

describe('counts of mutants', () => {
  it('are those of the table of the leak fuzzer', () => {
    const { all, marked } = mutantsOf('test/fuzz/leaks/README.md', '**not** run')
    const page = read('docs/evidence/leak-fuzz.md')
    expect(page).toContain(`| mutants | ${all} |`)
    expect(page).toContain(`| of them noticed | ${all - marked} |`)
    expect(page).toContain(`| of them not tried yet | ${marked} |`)
  })

  it('are those of the table of the simulation', () => {
    const { all, marked } = mutantsOf('test/simulation/README.md', '**not noticed**')
    expect(read('docs/evidence/simulation.md')).toContain(
      `Of ${all} mutants, ${all - marked} were noticed, and ${marked} only by unit tests.`,
    )
  })
})
