// The guide explains each word that `detail` can be.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { BYPASS_DETAILS, NOT_STORED_DETAILS, OTHER_DETAILS } from './cache-status-details.ts'

const PAGE = new URL('../../../../docs/guide/what-is-cached.md', import.meta.url)
const page = readFileSync(PAGE, 'utf8')

/** Each word in the first table after `heading`, with what its row says. */
function rowsAfter(heading: string): Record<string, string> {
  const [table = ''] = page.slice(page.indexOf(heading)).match(/(^\|.*\|\n)+/m) ?? []
  const rows: Record<string, string> = {}
  for (const [, words = '', text = ''] of table.matchAll(/^\| (`.*?`) \| (.*) \|$/gm)) {
    for (const [, word = ''] of words.matchAll(/`([a-z-]+)`/g)) rows[word] = text
  }
  delete rows.detail
  return rows
}

describe('docs/guide/what-is-cached.md', () => {
  it.each([
    ['\n`fwd=bypass`:', BYPASS_DETAILS],
    ['\n`fwd=uri-miss` without `stored`:', NOT_STORED_DETAILS],
  ])('has a row for each detail after %j', (heading, details) => {
    expect(rowsAfter(heading)).toEqual(details)
  })

  it.each(OTHER_DETAILS)('names detail=%s', (detail) => {
    expect(page).toContain(`detail=${detail}\``)
  })
})
