import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { headerValue, headerValues, requestField, storableHeaders, trimOws } from './headers.ts'

const names = (headers: HeaderList) => storableHeaders(headers).map(([name]) => name)

describe('functions that read fields', () => {
  const headers: HeaderList = [
    ['vary', 'a'],
    ['etag', '"1"'],
    ['vary', 'b'],
  ]

  it('return every line in order, or the first', () => {
    expect(headerValues(headers, 'vary')).toEqual(['a', 'b'])
    expect(headerValue(headers, 'vary')).toBe('a')
    expect(headerValues(headers, 'age')).toEqual([])
    expect(headerValue(headers, 'age')).toBeUndefined()
  })

  it('join the lines of a request field, cookies by semicolon', () => {
    const request = { 'x-a': ['1', '2'], cookie: ['a=1', 'b=2'], 'x-b': '' }
    expect(requestField(request, 'x-a')).toBe('1, 2')
    expect(requestField(request, 'cookie')).toBe('a=1; b=2')
    expect(requestField(request, 'x-b')).toBe('')
    expect(requestField(request, 'x-c')).toBeUndefined()
  })

  it('do not find properties that every object has', () => {
    expect(requestField({}, 'constructor')).toBeUndefined()
    expect(requestField({}, '__proto__')).toBeUndefined()
  })
})

describe('storableHeaders', () => {
  it('keeps the content fields, Date and repeated lines', () => {
    const kept: HeaderList = [
      ['content-type', 'text/html'],
      ['date', 'Sun, 06 Nov 1994 08:49:37 GMT'],
      ['link', '</a>'],
      ['link', '</b>'],
      ['x-powered-by', 'x'],
    ]
    expect(storableHeaders(kept)).toEqual(kept)
  })

  it.each([
    'connection',
    'keep-alive',
    'te',
    'trailer',
    'transfer-encoding',
    'upgrade',
    'content-length',
    'age',
    'set-cookie',
    'set-cookie2',
    'authorization',
    'x-auth-token',
    'clear-site-data',
    'cache-status',
    'stampede-cache-control',
    'proxy-authenticate',
    'proxy-connection',
    'x-request-id',
    'x-correlation-id',
    'traceparent',
    'tracestate',
    'server-timing',
    'ratelimit',
    'ratelimit-policy',
    'ratelimit-remaining',
    'x-ratelimit-limit',
  ])('drops %s', (name) => {
    expect(
      names([
        [name, 'x'],
        ['etag', '"1"'],
      ]),
    ).toEqual(['etag'])
  })

  it('drops what Connection lists, on any line and in any case', () => {
    const headers: HeaderList = [
      ['connection', 'close, X-Hop'],
      ['x-hop', '1'],
      ['x-end', '2'],
      ['connection', ' X-Other '],
      ['x-other', '3'],
    ]
    expect(names(headers)).toEqual(['x-end'])
  })
})

describe('trimOws', () => {
  it('removes spaces and tabs, and nothing else', () => {
    expect(trimOws(' \t a b\t ')).toBe('a b')
    expect(trimOws('\u00a0a\u00a0')).toBe('\u00a0a\u00a0')
    expect(trimOws('  ')).toBe('')
  })
})
