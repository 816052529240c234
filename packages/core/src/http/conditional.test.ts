import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { headersOf304, notModified } from './conditional.ts'

const T1 = 'Sun, 06 Nov 1994 08:49:37 GMT'
const T2 = 'Sun, 06 Nov 1994 08:49:38 GMT'
const etag = (value: string): HeaderList => [['etag', value]]

describe('If-None-Match', () => {
  const matches = (tags: string, stored: string) =>
    notModified({ 'if-none-match': tags }, etag(stored), 200)

  it.each([
    ['"a"', '"a"'],
    ['W/"a"', '"a"'],
    ['"a"', 'W/"a"'],
    ['"x", W/"a" , "y"', 'W/"a"'],
    ['"x,y","a"', '"a"'],
    ['"a, b"', '"a, b"'],
    ['""', '""'],
    ['*', '"a"'],
    [' * ', '"a"'],
  ])('%s matches %s', (tags, stored) => expect(matches(tags, stored)).toBe(true))

  it.each([
    ['"b"', '"a"'],
    ['"A"', '"a"'],
    ['"x,a"', '"a"'],
    ['"x, "a""', '"x"'],
    ['a', '"a"'],
    ['a', 'a'],
    ['"a"', 'a'],
    ['"a', '"a"'],
    ['', '"a"'],
    ['"x", *', '"a"'],
    ['w/"b"', 'W/"a"'],
  ])('%s does not match %s', (tags, stored) => expect(matches(tags, stored)).toBe(false))

  it('matches any stored response with *, and none without an ETag otherwise', () => {
    expect(notModified({ 'if-none-match': '*' }, [], 200)).toBe(true)
    expect(notModified({ 'if-none-match': '""' }, [], 200)).toBe(false)
  })

  it('wins over If-Modified-Since, even when it is empty', () => {
    const stored: HeaderList = [
      ['etag', '"a"'],
      ['last-modified', T1],
    ]
    const since = { 'if-modified-since': T2 }
    expect(notModified({ ...since, 'if-none-match': '"b"' }, stored, 200)).toBe(false)
    expect(notModified({ ...since, 'if-none-match': '' }, stored, 200)).toBe(false)
    expect(notModified({ 'if-modified-since': 'x', 'if-none-match': '"a"' }, stored, 200)).toBe(
      true,
    )
  })
})

describe('If-Modified-Since', () => {
  const unmodified = (since: string, headers: HeaderList) =>
    notModified({ 'if-modified-since': since }, headers, 200)

  it('is compared with Last-Modified', () => {
    expect(unmodified(T1, [['last-modified', T1]])).toBe(true)
    expect(unmodified(T2, [['last-modified', T1]])).toBe(true)
    expect(unmodified(T1, [['last-modified', T2]])).toBe(false)
  })

  it('is compared with Date if there is no Last-Modified', () => {
    expect(unmodified(T2, [['date', T1]])).toBe(true)
    expect(unmodified(T1, [['date', T2]])).toBe(false)
    expect(unmodified(T1, [])).toBe(false)
  })
})

describe('notModified', () => {
  it.each([203, 204, 301, 404])('is false for a stored %d', (status) => {
    expect(notModified({ 'if-none-match': '"a"' }, etag('"a"'), status)).toBe(false)
  })

  it('is false without a condition', () => {
    expect(notModified({}, etag('"a"'), 200)).toBe(false)
  })
})

describe('headersOf304', () => {
  it('returns all lines of six fields and those of CORS, and no other field', () => {
    const kept: HeaderList = [
      ['cache-control', 'max-age=1'],
      ['content-location', '/a'],
      ['date', T1],
      ['etag', '"a"'],
      ['expires', T1],
      ['vary', 'a'],
      ['vary', 'b'],
      ['access-control-allow-origin', '*'],
      ['access-control-expose-headers', 'etag'],
    ]
    const dropped: HeaderList = [
      ['content-type', 'text/html'],
      ['content-encoding', 'gzip'],
      ['last-modified', T1],
    ]
    expect(headersOf304([...dropped, ...kept])).toEqual(kept)
  })
})
