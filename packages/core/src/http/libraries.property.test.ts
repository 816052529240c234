// Our parsers of HTTP fields and the libraries that most servers use, on the same random fields.
// Each difference is intended, and has a rule with its section of the RFC.

import fc from 'fast-check'
import fresh from 'fresh'
import parseRange from 'range-parser'
import * as library from 'structured-headers'
import { describe, expect, it } from 'vitest'
import { type Compared, compare, type Difference } from '../testing/differential.ts'
import { HOSTILE_PIECES, runs } from '../testing/hostile.ts'
import { selectRange } from './byte-range.ts'
import { notModified } from './conditional.ts'
import { trimOws } from './headers.ts'
import { type Member, parseDictionary, parseItem, parseList } from './structured-fields.ts'

const MANY = runs(10_000)

/** All differences are explained, each rule is needed, and both kinds of results are common. */
function expectAgreement({ unexplained, unproven, agreed }: Compared, rare: string): void {
  expect(unexplained).toEqual([])
  expect(unproven).toEqual([])
  const all = [...agreed.values()].reduce((sum, times) => sum + times, 0)
  const rareTimes = agreed.get(rare) ?? 0
  expect(rareTimes).toBeGreaterThan(MANY.numRuns / 50)
  expect(all - rareTimes).toBeGreaterThan(MANY.numRuns / 10)
}

/** Texts of the pieces, some with a hostile piece at a random place. */
function damaged(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const damage = fc
    .tuple(texts, fc.nat(), fc.constantFrom(...HOSTILE_PIECES))
    .map(([text, at, piece]) => {
      const cut = at % (text.length + 1)
      return text.slice(0, cut) + piece + text.slice(cut)
    })
  return fc.oneof({ weight: 4, arbitrary: texts }, { weight: 1, arbitrary: damage })
}

const joined = (separators: readonly string[], texts: fc.Arbitrary<string>, maxLength = 4) =>
  fc
    .array(fc.tuple(fc.constantFrom(...separators), texts), { minLength: 1, maxLength })
    .map((parts) => parts.map(([before, text], i) => (i === 0 ? text : before + text)).join(''))

// --- Structured Fields ---------------------------------------------------------------------------

/** Mostly the first, so that most fields are valid and their differences have one reason. */
const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 9, arbitrary: usual }, { weight: 1, arbitrary: odd })

const keys = mostly(
  fc.constantFrom('a', 'b', '*x', 'max-age', 'a.b_c-d*'),
  fc.constantFrom('A', '1a', ''),
)
const bareItems = mostly(
  fc.oneof(
    fc.constantFrom(
      ...['0', '-0', '007', '-12', '999999999999999', '1.5', '-1.125', '123456789012.5', '@0'],
      ...['""', '"a, b;c"', '"\\"\\\\"', 'tok', '*', 'a/b:c', "a!#$%&'*+-.^_`|~", '?0', '?1'],
      ...['@-1659578233', '%"a"', '%"f%c3%bc"', '::'],
    ),
    fc.uint8Array({ maxLength: 8 }).map((bytes) => `:${Buffer.from(bytes).toString('base64')}:`),
    fc.string({ unit: 'grapheme-ascii', maxLength: 6 }).map((text) => `"${text}"`),
  ),
  fc.oneof(
    fc.constantFrom(
      ...['1000000000000000', '1.2345', '1234567890123.5', '1.', '.5', '+1', '1e3', '--1', '"\\n"'],
      ...['"a', '"é"', 'é', '?2', '?', '@1.5', '@', '%"%C3"', '%"%ff"', '%"%"', '%"a'],
    ),
    fc.constantFrom('@8640000000001', '@-999999999999999', '%"☃"', ':=:', ':YQ=:'),
    fc
      .string({ unit: fc.constantFrom('Y', 'Q', 'a', '=', '+', '/', '-', ' '), maxLength: 9 })
      .map((text) => `:${text}:`),
    fc.string({ unit: fc.constantFrom(...'0123456789.-'), maxLength: 18 }),
    fc.string({ unit: 'binary', maxLength: 6 }).map((text) => `"${text}"`),
  ),
)
const parameters = fc
  .array(
    fc.tuple(
      mostly(fc.constantFrom(';', '; ', ';  '), fc.constant(' ;')),
      keys,
      fc.option(bareItems),
    ),
    {
      maxLength: 2,
    },
  )
  .map((all) => all.map(([mark, key, item]) => mark + key + (item === null ? '' : `=${item}`)))
  .map((all) => all.join(''))
const items = fc
  .tuple(bareItems, fc.oneof(fc.constant(''), parameters))
  .map((both) => both.join(''))
const innerLists = joined([' ', ' ', '  ', '   ', ''], items).map((text) => `(${text})`)
const values = fc.oneof(
  { weight: 4, arbitrary: items },
  { weight: 1, arbitrary: innerLists },
  { weight: 1, arbitrary: fc.constantFrom('()', '( )', '(', ')', '(1 2 )', '(1\t2)') },
)
const COMMAS = [', ', ', ', ', ', ',', ',', ' ,\t', '  ,  ', '\t, ', ',,', ' ', '\n']
const lists = damaged(joined(COMMAS, values))
const dictionaries = damaged(
  joined(
    COMMAS,
    fc
      .tuple(
        keys,
        fc.oneof(
          values.map((value) => `=${value}`),
          parameters,
        ),
      )
      .map((all) => all.join('')),
  ),
)
const singles = damaged(
  fc
    .tuple(fc.constantFrom('', '', ' ', '\t'), items, fc.constantFrom('', '', ' ', '\t'))
    .map((all) => all.join('')),
)

const INVALID = 'invalid'

/** A value in a form that both parsers can have. The library has one type for both numbers. */
function ourForm(member: Member | undefined): unknown {
  if (member === undefined) return INVALID
  if (member.type === 'inner-list') return ['inner-list']
  const { type, value } = member
  if (type === 'integer' || type === 'decimal') return ['number', value + 0]
  if (type === 'bytes') return [type, Buffer.from(String(value), 'base64').toString('hex')]
  return [type, type === 'date' ? Number(value) + 0 : value]
}

function theirForm([value]: library.Item | library.InnerList): unknown {
  if (Array.isArray(value)) return ['inner-list']
  if (typeof value === 'number') return ['number', value + 0]
  if (value instanceof Date) return ['date', value.getTime() / 1000 + 0]
  if (value instanceof library.Token) return ['token', value.toString()]
  if (value instanceof library.DisplayString) return ['display-string', value.toString()]
  if (value instanceof ArrayBuffer) return ['bytes', Buffer.from(value).toString('hex')]
  return [typeof value, value]
}

function orInvalid(parse: () => unknown): unknown {
  try {
    return parse()
  } catch (error) {
    if (error instanceof library.ParseError) return INVALID
    throw error
  }
}

const FIELD_DIFFERENCES: ReadonlyArray<Difference<string>> = [
  {
    name: 'parameters or another member may follow a Date (RFC 9651 §4.2.10)',
    example: 'a=@1;b',
    applies: (text) => /@-?\d+[^\d]/.test(text),
  },
  {
    name: 'a Date has 15 digits, even if a Date of JavaScript has not (RFC 9651 §3.3.7)',
    example: 'a=@-999999999999999',
    applies: (text) => /@-?\d{13,15}$/.test(text),
  },
  {
    name: 'a Display String has only ASCII characters (RFC 9651 §4.2.9)',
    example: 'a=%"☃"',
    applies: (text) => /%"[^"]*[^\0-\xff]/.test(text),
  },
]
/** The examples as Lists and Items. */
const VALUE_DIFFERENCES = FIELD_DIFFERENCES.map((difference) => ({
  ...difference,
  example: difference.example.slice('a='.length),
}))

describe('Structured Fields and structured-headers agree', () => {
  it('on Lists', () => {
    const compared = compare({
      inputs: fc.sample(lists, MANY),
      ours: (text) => parseList([text])?.map(ourForm) ?? INVALID,
      theirs: (text) => orInvalid(() => library.parseList(text).map(theirForm)),
      differences: VALUE_DIFFERENCES,
    })
    expectAgreement(compared, '"invalid"')
  })

  it('on Dictionaries', () => {
    const compared = compare({
      inputs: fc.sample(dictionaries, MANY),
      ours(text) {
        const members = parseDictionary([text])
        return members === undefined ? INVALID : [...members].map(([k, m]) => [k, ourForm(m)])
      },
      theirs: (text) =>
        orInvalid(() => [...library.parseDictionary(text)].map(([k, m]) => [k, theirForm(m)])),
      differences: FIELD_DIFFERENCES,
    })
    expectAgreement(compared, '"invalid"')
  })

  it('on Items', () => {
    const compared = compare({
      inputs: fc.sample(singles, MANY),
      ours: (text) => ourForm(parseItem(text)),
      theirs: (text) => orInvalid(() => theirForm(library.parseItem(text))),
      differences: VALUE_DIFFERENCES,
    })
    expectAgreement(compared, '"invalid"')
  })
})

// --- Range ---------------------------------------------------------------------------------------

const positions = fc.oneof(
  fc.nat(120).map(String),
  fc.constantFrom('', '', '0', '00', '99', '100', '9'.repeat(20), 'x', ' 1', '-1', '1.5'),
)
const byteRanges = fc.record({
  length: fc.constantFrom(0, 1, 100, 100, 100),
  range: damaged(
    fc
      .tuple(
        mostly(fc.constant('bytes='), fc.constantFrom('BYTES=', 'bytes =', 'items=', '', 'bytes')),
        joined(
          [',', ', '],
          fc.tuple(positions, positions).map((both) => both.join('-')),
          2,
        ),
      )
      .map((both) => both.join('')),
  ),
})

interface RangeRequest {
  readonly range: string
  readonly length: number
}

/** The result of the library in our form. It leaves the unit and the number of ranges to us. */
function theirRange({ range, length }: RangeRequest): unknown {
  const [unit = ''] = range.split('=', 1)
  const ranges = parseRange(length, range)
  if (ranges === -2 || !/^[ \t]*bytes$/i.test(unit)) return { type: 'whole' }
  if (ranges === -1) return { type: 'unsatisfiable' }
  const [only] = ranges
  if (ranges.length > 1 || only === undefined) return { type: 'whole' }
  return { type: 'part', start: only.start, end: only.end + 1 }
}

/** The members of the list, also the empty ones. */
const specsOf = ({ range }: RangeRequest): string[] =>
  range
    .slice(range.indexOf('=') + 1)
    .split(',')
    .map(trimOws)
/** The only member, if it is well-formed. */
const specOf = (request: RangeRequest): string | undefined => {
  const [spec, another] = specsOf(request).filter(Boolean)
  return another === undefined && /^\d*-\d*$/.test(spec ?? '') ? spec : undefined
}

it('Range and range-parser agree', () => {
  const compared = compare<RangeRequest>({
    inputs: fc.sample(byteRanges, MANY),
    ours: ({ range, length }) => selectRange({ range }, [], length),
    theirs: theirRange,
    differences: [
      {
        name: 'several ranges get the whole response, even if one can be satisfied (RFC 9110 §14.2)',
        example: { range: 'bytes=0-1,200-300', length: 100 },
        applies: (request) => specsOf(request).filter(Boolean).length > 1,
      },
      {
        name: 'a range whose end is before its start is invalid (RFC 9110 §14.1.1)',
        example: { range: 'bytes=3-2', length: 100 },
        applies(request) {
          const [, first, last] = /^(\d+)-(\d+)$/.exec(specOf(request) ?? '') ?? []
          return Number(last) < Number(first)
        },
      },
      {
        name: 'a suffix longer than the body is the whole body (RFC 9110 §14.1.2)',
        example: { range: 'bytes=-101', length: 100 },
        applies(request) {
          const [, suffix] = /^-(\d+)$/.exec(specOf(request) ?? '') ?? []
          return Number(suffix) > request.length
        },
      },
      {
        name: 'empty members of the list are ignored (RFC 9110 §5.6.1.2)',
        example: { range: 'bytes=1-2,', length: 100 },
        applies(request) {
          const [, , last] = /^(\d*)-(\d*)$/.exec(specOf(request) ?? '') ?? []
          return last !== undefined && specsOf(request).includes('')
        },
      },
      {
        name: 'a range has no whitespace inside (RFC 9110 §14.1.1)',
        example: { range: 'bytes=1 - 2', length: 100 },
        applies: (request) => specsOf(request).some((spec) => /\s/.test(spec)),
      },
    ],
  })
  expectAgreement(compared, '{"type":"whole"}')
})

// --- If-None-Match and If-Modified-Since ---------------------------------------------------------

const tags = mostly(
  fc.constantFrom('"a"', 'W/"a"', '"b"', 'W/"b"', '"a,b"', '""', '"a b"'),
  fc.constantFrom('a', 'w/"a"', '"a', 'a"', '*', 'W/ "a"', "'a'"),
)
// No asctime dates: the library reads them as local time, so the result depends on the machine.
const dates = mostly(
  fc.constantFrom(
    ...['Thu, 01 Jan 2026 00:00:00 GMT', 'Thu, 01 Jan 2026 00:00:01 GMT'],
    ...['Wed, 31 Dec 2025 23:59:59 GMT', 'Thursday, 01-Jan-26 00:00:00 GMT'],
  ),
  fc.constantFrom('2026-01-01', 'now', '0', ''),
)
const optional = <T>(all: fc.Arbitrary<T>) => fc.option(all, { nil: undefined })
const conditions = fc.record({
  tags: optional(damaged(joined([', ', ',', ' ,', ',\t'], tags, 3))),
  since: optional(damaged(dates)),
  etag: optional(tags),
  modified: optional(dates),
  date: optional(dates),
})

interface Conditions {
  readonly tags?: string | undefined
  readonly since?: string | undefined
  readonly etag?: string | undefined
  readonly modified?: string | undefined
  readonly date?: string | undefined
}

const TAG = '(?:W/)?"[^"]*"'
const TAG_LIST = new RegExp(`^[ ,]*${TAG}(?: *,[ ,]*${TAG})*[ ,]*$`)
const HTTP_DATE =
  /^(?:Thu|Wed|Thursday), \d\d(?: [A-Z][a-z][a-z] \d{4}|-[A-Z][a-z][a-z]-\d\d) \d\d:\d\d:\d\d GMT$/

it('conditions and fresh agree', () => {
  const compared = compare<Conditions>({
    inputs: fc.sample(conditions, MANY),
    ours({ tags: tagList, since, etag, modified, date }) {
      const stored = { etag, 'last-modified': modified, date }
      const headers = Object.entries(stored).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value] as const],
      )
      return notModified({ 'if-none-match': tagList, 'if-modified-since': since }, headers, 200)
    },
    theirs: ({ tags: tagList, since, etag, modified }) =>
      fresh(
        { 'if-none-match': tagList, 'if-modified-since': since },
        { etag, 'last-modified': modified },
      ),
    differences: [
      {
        name: 'tags are found in a malformed list and between tabs, never without quotes (RFC 9110 §13.1.2)',
        example: { tags: '"b",\t"a"', etag: '"a"' },
        applies: ({ tags: tagList }) =>
          tagList !== undefined && tagList !== '*' && !TAG_LIST.test(tagList),
      },
      {
        name: 'a tag may contain commas (RFC 9110 §8.8.3)',
        example: { tags: '"a,b"', etag: '"a,b"' },
        applies: ({ tags: tagList = '', etag = '' }) =>
          TAG_LIST.test(tagList) && etag.includes(',') && tagList.includes(etag.replace('W/', '')),
      },
      {
        name: 'an ETag that is malformed matches no tag (RFC 9110 §8.8.3)',
        example: { tags: '"a"', etag: '"a" ' },
        applies: ({ tags: tagList = '', etag }) =>
          TAG_LIST.test(tagList) && etag !== undefined && !/^(?:W\/)?"[^"]*"$/.test(etag),
      },
      {
        name: 'a date that is not an HTTP date is ignored (RFC 9110 §13.1.3)',
        example: { since: '2026-01-01', modified: 'Thu, 01 Jan 2026 00:00:00 GMT' },
        applies: ({ tags: tagList, since = '', modified = '' }) =>
          tagList === undefined &&
          modified !== '' &&
          !(HTTP_DATE.test(since) && HTTP_DATE.test(modified)),
      },
      {
        name: 'without Last-Modified, the Date of the response counts (RFC 9111 §4.3.2)',
        example: {
          since: 'Thu, 01 Jan 2026 00:00:00 GMT',
          date: 'Thu, 01 Jan 2026 00:00:00 GMT',
        },
        applies: ({ tags: tagList, modified, date }) =>
          tagList === undefined && modified === undefined && date !== undefined,
      },
    ],
  })
  expectAgreement(compared, 'false')
})
