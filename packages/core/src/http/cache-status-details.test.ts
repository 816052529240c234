// Checks that the guide explains each value of `detail`.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { BYPASS_DETAILS, NOT_STORED_DETAILS, OTHER_DETAILS } from './cache-status.ts'

const page = readFileSync(
  new URL('../../../../docs/guide/why-nothing-is-cached.md', import.meta.url),
  'utf8',
)

/** The values in the first table after `heading`. */
function rowsAfter(heading: string): string[] {
  const [table = ''] = page.slice(page.indexOf(heading)).match(/(^\|.*\|\n)+/m) ?? []
  const rows = [...table.matchAll(/^\| (`.*?`) \| .* \|$/gm)].slice(1)
  return rows.flatMap(([, words = '']) =>
    [...words.matchAll(/`([a-z-]+)`/g)].map(([, word = '']) => word),
  )
}

describe('docs/guide/why-nothing-is-cached.md', () => {
  it.each([
    ['\n`fwd=bypass`:', BYPASS_DETAILS],
    ['\n`fwd=uri-miss` without `stored`:', NOT_STORED_DETAILS],
  ])('has a row for each detail after %j', (heading, details) => {
    expect(rowsAfter(heading)).toEqual(details)
  })

  it.each(OTHER_DETAILS)('explains detail=%s', (detail) => {
    expect(page).toContain(`detail=${detail}\``)
  })
})
