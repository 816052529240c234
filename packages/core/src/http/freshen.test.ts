import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { conditionsFor, confirms, freshen } from './conditional.ts'

const T1 = 'Sun, 06 Nov 1994 08:49:37 GMT'
const T2 = 'Sun, 06 Nov 1994 08:49:38 GMT'
const tag = (etag: string): HeaderList => [['etag', etag]]
const date = (modified: string): HeaderList => [['last-modified', modified]]

describe('a conditional request for a stored response', () => {
  it('has its ETag and its date', () => {
    expect(conditionsFor([['x-a', '1'], ...date(T1), ...tag('"a"')])).toEqual([
      ['if-none-match', '"a"'],
      ['if-modified-since', T1],
    ])
  })

  it.each(['"a"', 'W/"a"', '""', '"a,b"', '"\xe9"'])('has the ETag %s', (etag) => {
    expect(conditionsFor(tag(etag))).toEqual([['if-none-match', etag]])
  })

  it.each(['a', 'w/"a"', 'W"a"', '"a', '"a"b"', '"a", "b"', '"a b"', '*', ''])(
    'does not have %s, which is not an ETag',
    (etag) => expect(conditionsFor(tag(etag))).toEqual([]),
  )
})

describe('a 304', () => {
  it.each([
    [tag('"a"'), tag('"a"')],
    [tag('W/"a"'), tag('W/"a"')],
    [tag('"a"'), tag('W/"a"')],
    [tag('"a"'), []],
    [date(T1), date(T1)],
    [date(T1), []],
    [
      [...tag('"a"'), ...date(T1)],
      [...tag('"a"'), ...date(T2)],
    ],
  ] satisfies Array<[HeaderList, HeaderList]>)(
    'confirms a stored response with %j if the 304 itself has %j',
    (stored, said) => expect(confirms(stored, said)).toBe(true),
  )

  it.each([
    [tag('"a"'), tag('"b"')],
    [tag('W/"a"'), tag('"a"')],
    [tag('"a"'), tag('W/"b"')],
    [tag('"a"'), date(T1)],
    [date(T1), date(T2)],
    [date(T1), tag('"a"')],
    [
      [...tag('"a"'), ...date(T1)],
      [...tag('"b"'), ...date(T1)],
    ],
  ] satisfies Array<[HeaderList, HeaderList]>)(
    'does not confirm a stored response with %j if the 304 itself has %j',
    (stored, said) => expect(confirms(stored, said)).toBe(false),
  )
})

describe('a stored response after a 304', () => {
  const NOW = Date.UTC(1994, 10, 6, 8, 49, 38)
  const after = (stored: HeaderList, said: HeaderList) =>
    freshen(stored, { headers: [...said, ['date', T1]] }, NOW).filter(([name]) => name !== 'date')

  it('gets the fields of the 304, with every line, and keeps the others', () => {
    const stored: HeaderList = [
      ['link', '<a>'],
      ['link', '<b>'],
      ['x-a', '1'],
      ['cache-control', 'max-age=1'],
    ]
    const said: HeaderList = [
      ['link', '<c>'],
      ['link', '<d>'],
      ['cache-control', 'max-age=2'],
      ['x-b', '2'],
    ]
    expect(after(stored, said)).toEqual([['x-a', '1'], ...said])
  })

  it.each(['content-length', 'content-encoding', 'content-range'])(
    'keeps its %s, which describes the body',
    (name) => expect(after([[name, '1']], [[name, '2']])).toEqual([[name, '1']]),
  )

  it.each(['content-type', 'content-location', 'content-foo', 'etag'])('gets the new %s', (name) =>
    expect(after([[name, '1']], [[name, '2']])).toEqual([[name, '2']]),
  )

  it('has the Vary fields of the 304 and its own', () => {
    const vary = (...lines: string[]): HeaderList => lines.map((line) => ['vary', line])
    expect(after(vary('Accept-Language'), vary('Origin'))).toEqual(vary('accept-language, origin'))
    expect(after(vary('a', 'b'), vary('B', 'c'))).toEqual(vary('a, b, c'))
    expect(after(vary('a'), vary('*'))).toEqual(vary('*'))
    expect(after(vary('A'), [])).toEqual(vary('A'))
    expect(after([], vary('a'))).toEqual(vary('a'))
  })

  it('gets the current date from a 304 without a date', () => {
    expect(freshen([['date', T1]], { headers: [] }, NOW)).toEqual([['date', T2]])
    expect(freshen([], { headers: [['date', T1]] }, NOW)).toEqual([['date', T1]])
  })

  it('loses Stampede-Cache-Control if the 304 has a field about caching', () => {
    const own: HeaderList = [['stampede-cache-control', 'max-age=60']]
    expect(after(own, [['x-a', '1']])).toEqual([...own, ['x-a', '1']])
    expect(after(own, [['cache-control', 'no-store']])).toEqual([['cache-control', 'no-store']])
  })
})
