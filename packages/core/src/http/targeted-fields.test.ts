import { describe, expect, it } from 'vitest'
import { type HeaderList, OWN_FIELD } from '../ports/exchange.ts'
import { LARGEST_SECONDS, responseDirectives } from './freshness.ts'

const TARGETS = [OWN_FIELD, 'cdn-cache-control']
const own = (value: string) => [OWN_FIELD, value] as const
const cdn = (value: string) => ['cdn-cache-control', value] as const
const plain = (value: string) => ['cache-control', value] as const
const read = (...headers: HeaderList) => responseDirectives(headers, TARGETS)
const all = (...headers: HeaderList) => Object.fromEntries(read(...headers).cc)
const maxAge = (...headers: HeaderList) => read(...headers).cc.get('max-age')

describe('the targeted field that applies (RFC 9213 §2.2)', () => {
  it('is the first of the list, and replaces Cache-Control', () => {
    expect(maxAge(plain('max-age=1'), cdn('max-age=2'), own('max-age=3'))).toBe(3)
    expect(maxAge(plain('max-age=1'), cdn('max-age=2'))).toBe(2)
    expect(maxAge(plain('max-age=1'))).toBe(1)
    expect(read(plain('no-store, private'), own('max-age=3'))).toMatchObject({ targeted: true })
    expect(all(plain('no-store, private'), own('max-age=3'))).toEqual({ 'max-age': 3 })
    expect(read(plain('max-age=1'))).toMatchObject({ targeted: false })
  })

  it('may be any on the list, and no other field', () => {
    const read = responseDirectives([cdn('max-age=2')], [OWN_FIELD])
    expect(read).toEqual({ targeted: false, cc: new Map() })
  })

  it.each(['', '  ', 'max-age=60, &&&', 'Max-Age=60', 'max-age=60,', 'max-age=1000000000000000'])(
    'is not one with the value %j',
    (value) => {
      expect(maxAge(own(value), cdn('max-age=2'), plain('max-age=1'))).toBe(2)
      expect(maxAge(own(value), plain('max-age=1'))).toBe(1)
    },
  )

  it('may have unknown directives, too', () => {
    expect(read(plain('no-store'), cdn('none'))).toMatchObject({ targeted: true })
    expect(all(plain('no-store'), cdn('none'))).toEqual({ none: 0 })
  })

  it('leaves Pragma without effect, as Cache-Control does', () => {
    const pragma = ['pragma', 'no-store, No-Cache'] as const
    expect(all(pragma)).toEqual({ 'no-cache': 0 })
    expect(all(pragma, plain(''))).toEqual({})
    expect(all(pragma, own('max-age=3'))).toEqual({ 'max-age': 3 })
  })
})

describe('the directives of a targeted field', () => {
  it('are parsed from all its lines, with the last one of each name', () => {
    expect(maxAge(own('max-age=60'), own('max-age=5, x=(1 2);y'))).toBe(5)
  })

  it('mean the same as in Cache-Control', () => {
    const said =
      'max-age=1, s-maxage=2, stale-while-revalidate=3, stale-if-error=4, no-store, no-cache, ' +
      'private, public, must-revalidate, proxy-revalidate, must-understand, immutable'
    expect(all(own(said))).toEqual(all(plain(said)))
  })

  it('ignore parameters', () => {
    expect(maxAge(own('max-age=60;x=1;no-store'))).toBe(60)
    expect(all(own('max-age=60;no-store'))).toEqual({ 'max-age': 60 })
  })

  it.each(['"60"', '1.5', 'x', '?1', '(60)', ':aGk=:', '@60', '-1'])(
    'are stale with max-age=%s',
    (value) => expect(maxAge(own(`max-age=${value}`), plain('max-age=9'))).toBe(0),
  )

  it('are stale with a bare max-age, and clamp numbers that overflow', () => {
    expect(maxAge(own('max-age'))).toBe(0)
    expect(maxAge(own('max-age=999999999999999'))).toBe(LARGEST_SECONDS)
  })

  it.each(['', '="set-cookie"', '=1', '=x', '=()'])('forbid storing also as private%s', (value) => {
    const { cc } = read(own(`private${value}, no-store${value}, no-cache${value}`))
    expect([...cc.keys()]).toEqual(['private', 'no-store', 'no-cache'])
  })

  it('expire with a time that is false, also if the app has a longer one', () => {
    const times = ['max-age', 's-maxage', 'stale-while-revalidate', 'stale-if-error']
    for (const name of times) expect(all(own(`${name}=?0`))).toEqual({ [name]: 0 })
  })

  it('do not forbid anything with the value false', () => {
    expect(all(own('private=?0, no-store=?0, max-age=5'))).toEqual({ 'max-age': 5 })
  })
})
