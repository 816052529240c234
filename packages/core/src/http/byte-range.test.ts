import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { contentRange, selectRange } from './byte-range.ts'

const part = (start: number, end: number) => ({ type: 'part', start, end })
const WHOLE = { type: 'whole' }
const NONE = { type: 'unsatisfiable' }
const select = (range: string, length = 10) => selectRange({ range }, [], length)

describe('a range (RFC 9110 §14.1.2)', () => {
  it.each([
    ['bytes=0-0', part(0, 1)],
    ['bytes=2-4', part(2, 5)],
    ['bytes=0-9', part(0, 10)],
    ['bytes=5-99', part(5, 10)],
    ['bytes=5-', part(5, 10)],
    ['bytes=-3', part(7, 10)],
    ['bytes=-99', part(0, 10)],
    ['BYTES=2-4', part(2, 5)],
    ['bytes= 2-4\t', part(2, 5)],
    ['bytes=,2-4,', part(2, 5)],
    ['bytes=002-04', part(2, 5)],
    [`bytes=2-${'9'.repeat(400)}`, part(2, 10)],
    [`bytes=-${'9'.repeat(400)}`, part(0, 10)],
  ])('%s selects a part', (range, expected) => expect(select(range)).toEqual(expected))

  it.each(['bytes=10-', 'bytes=10-20', 'bytes=-0', 'bytes=-000', `bytes=${'9'.repeat(400)}-`])(
    '%s is not satisfiable',
    (range) => expect(select(range)).toEqual(NONE),
  )

  it.each([
    '',
    'bytes',
    'bytes=',
    'bytes=,',
    'bytes=-',
    'bytes=4-2',
    'bytes=0-1,4-5',
    'bytes=0-1, -1',
    'bytes=a-b',
    'bytes=1.5-2',
    'bytes=0x1-2',
    'bytes=1--2',
    'bytes=--1',
    'bytes=1 -2',
    'bytes 0-1',
    'bytes =0-1',
    'lines=0-1',
    '0-1',
    'bytes=１-２',
  ])('%j is ignored', (range) => expect(select(range)).toEqual(WHOLE))

  it('is unsatisfiable for an empty body, unless it is a suffix of at least one byte', () => {
    expect(select('bytes=0-', 0)).toEqual(NONE)
    expect(select('bytes=-0', 0)).toEqual(NONE)
    expect(select('bytes=-5', 0)).toEqual(WHOLE)
  })

  it('is sent with the length of the full body in Content-Range', () => {
    expect(contentRange({ type: 'part', start: 2, end: 5 }, 10)).toBe('bytes 2-4/10')
    expect(contentRange({ type: 'unsatisfiable' }, 10)).toBe('bytes */10')
  })
})

describe('If-Range (RFC 9110 §13.1.5)', () => {
  const MODIFIED = 'Sun, 06 Nov 1994 08:49:37 GMT'
  const stored = (...headers: HeaderList) => headers
  const condition = (ifRange: string, headers: HeaderList) =>
    selectRange({ range: 'bytes=0-1', 'if-range': ifRange }, headers, 10).type
  const dated = (date: string) => stored(['last-modified', MODIFIED], ['date', date])
  const LATER = 'Sun, 06 Nov 1994 08:49:38 GMT'

  it('holds for the same strong entity tag', () => {
    expect(condition('"a"', stored(['etag', '"a"']))).toBe('part')
    expect(condition(' "a" ', stored(['etag', ' "a"']))).toBe('part')
  })

  it.each([
    ['"b"', '"a"'],
    ['W/"a"', '"a"'],
    ['"a"', 'W/"a"'],
    ['W/"a"', 'W/"a"'],
    ['"a", "b"', '"a"'],
    ['*', '"a"'],
    ['a', 'a'],
    ['', '"a"'],
  ])('does not hold for %s with the ETag %s', (ifRange, etag) =>
    expect(condition(ifRange, stored(['etag', etag]))).toBe('whole'),
  )

  it('does not hold without an ETag', () => expect(condition('"a"', [])).toBe('whole'))

  it('holds for the exact date of Last-Modified, if the response is at least a second younger', () => {
    expect(condition(MODIFIED, dated(LATER))).toBe('part')
    expect(condition('Sunday, 06-Nov-94 08:49:37 GMT', dated(LATER))).toBe('part')
  })

  it.each([
    ['a later date', LATER, dated('Sun, 06 Nov 1994 09:00:00 GMT')],
    ['a date within its second', MODIFIED, dated(MODIFIED)],
    ['a date without Date', MODIFIED, stored(['last-modified', MODIFIED])],
    ['a date without Last-Modified', MODIFIED, stored(['date', LATER])],
    ['no date', '0', dated(LATER)],
    ['the Date', LATER, dated(LATER)],
  ] as const)('does not hold for %s', (_, ifRange, headers) =>
    expect(condition(ifRange, headers)).toBe('whole'),
  )

  it('has no effect without a range', () => {
    expect(selectRange({ 'if-range': '"a"' }, [], 10)).toEqual(WHOLE)
  })
})
