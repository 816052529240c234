// Hostile inputs and the result that each must have: test/attacks/corpus/*.json. An input that once
// caused a failure is added there.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type CacheRules, readCacheOptions } from '../../packages/core/src/cache/cache-options.ts'
import { cacheKey } from '../../packages/core/src/cache/key.ts'
import { judgeHead } from '../../packages/core/src/cache/storable.ts'
import { cacheGroups, responseTags } from '../../packages/core/src/cache/subjects.ts'
import { decodeFrame } from '../../packages/core/src/entry/frame.ts'
import { selectRange } from '../../packages/core/src/http/byte-range.ts'
import { notModified } from '../../packages/core/src/http/conditional.ts'
import { parseHttpDate } from '../../packages/core/src/http/freshness.ts'
import { parseIdempotencyKey } from '../../packages/core/src/http/idempotency-key.ts'
import { matchesPattern, patternProblem } from '../../packages/core/src/http/route-pattern.ts'
import { varyNames } from '../../packages/core/src/http/vary.ts'
import { canonicalPath } from '../../packages/core/src/ports/key.ts'

const FOLDER = new URL('./corpus/', import.meta.url)
const GET = { method: 'GET', scheme: 'http', host: 'shop.test', target: '/', headers: {} }
const NOW = Date.UTC(2026, 0, 1)

/** Functions that parse the inputs, by file of the corpus. */
const READERS: Readonly<Record<string, (...inputs: never[]) => unknown>> = {
  storable: (ttlMs: number | null, headers: Array<[string, string]>) => {
    const options = ttlMs === null ? {} : { ttlMs }
    const said = judgeHead({ status: 200, headers }, GET, readCacheOptions(options), NOW)
    return typeof said === 'string' ? said : said.freshMs
  },
  dates: (text: string) => {
    const time = parseHttpDate(text)
    return time === undefined ? null : time / 1000
  },
  'idempotency-key': (lines: string[]) => {
    const field = parseIdempotencyKey(lines, false)
    return field.type === 'key' ? ['key', field.key] : [field.type]
  },
  range: (text: string) => {
    const selected = selectRange({ range: text }, [], 10)
    return selected.type === 'part' ? [selected.start, selected.end] : selected.type
  },
  'if-none-match': (text: string, etag: string | null) =>
    notModified({ 'if-none-match': text }, etag === null ? [] : [['etag', etag]], 200),
  vary: (lines: string[]) => varyNames(lines.map((line) => ['vary', line])),
  paths: (path: string) => canonicalPath(path),
  patterns: (pattern: string, path: string) =>
    patternProblem(pattern) === undefined ? matchesPattern(pattern, canonicalPath(path)) : null,
  tags: (name: string, value: string) =>
    name === 'cache-groups' ? cacheGroups([[name, value]]) : responseTags([[name, value]]),
  queries: (
    one: string,
    other: string,
    query: Exclude<CacheRules<unknown>['query'], undefined> | null,
  ) => {
    const config = readCacheOptions(query === null ? {} : { query })
    const key = (text: string) => cacheKey({ ...GET, target: `/?${text}` }, {}, config, [])
    return key(one) === key(other)
  },
  frames: (_about: string, hex: string) => decodeFrame('k', Buffer.from(hex, 'hex')) !== undefined,
}

const names = readdirSync(FOLDER).map((file) => file.replace(/\.json$/, ''))

it('the corpus has one file for each parser', () => {
  expect(names.sort()).toEqual(Object.keys(READERS).sort())
})

describe.each(names)('the corpus of %s', (name) => {
  const { cases } = JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8')) as {
    cases: unknown[][]
  }
  // The last element of each line is the expected result.
  const titled = cases.map((line) => [JSON.stringify(line).slice(0, 100), line] as const)
  it.each(titled)('%s', (_, line) => {
    expect(READERS[name]?.(...(line.slice(0, -1) as never[]))).toEqual(line.at(-1))
  })
})
