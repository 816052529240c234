import { describe, expect, it } from 'vitest'
import { type HeaderList, OWN_FIELD } from '../ports/exchange.ts'
import { LARGEST_SECONDS, responseDirectives } from './freshness.ts'

const TARGETS = [OWN_FIELD, 'cdn-cache-control']
const own = (value: string) => [OWN_FIELD, value] as const
const cdn = (value: string) => ['cdn-cache-control', value] as const
const plain = (value: string) => ['cache-control', value] as const
const read = (...headers: HeaderList) => responseDirectives(headers, TARGETS)
const maxAge = (...headers: HeaderList) => read(...headers).cc.maxAgeS

describe('the targeted field that applies (RFC 9213 §2.2)', () => {
  it('is the first of the list, and replaces Cache-Control', () => {
    expect(maxAge(plain('max-age=1'), cdn('max-age=2'), own('max-age=3'))).toBe(3)
    expect(maxAge(plain('max-age=1'), cdn('max-age=2'))).toBe(2)
    expect(maxAge(plain('max-age=1'))).toBe(1)
    expect(read(plain('no-store, private'), own('max-age=3'))).toMatchObject({
      targeted: true,
      cc: { present: true, noStore: false, private: false, maxAgeS: 3 },
    })
    expect(read(plain('max-age=1'))).toMatchObject({ targeted: false })
  })

  it('may be any on the list, and no other field', () => {
    const read = responseDirectives([cdn('max-age=2')], [OWN_FIELD])
    expect(read).toMatchObject({ targeted: false, cc: { present: false } })
    expect(read.cc.maxAgeS).toBeUndefined()
  })

  it.each(['', '  ', 'max-age=60, &&&', 'Max-Age=60', 'max-age=60,', 'max-age=1000000000000000'])(
    'is not one with the value %j',
    (value) => {
      expect(maxAge(own(value), cdn('max-age=2'), plain('max-age=1'))).toBe(2)
      expect(maxAge(own(value), plain('max-age=1'))).toBe(1)
    },
  )

  it('may have unknown directives, too', () => {
    expect(read(plain('no-store'), cdn('none'))).toMatchObject({
      targeted: true,
      cc: { noStore: false, maxAgeS: undefined },
    })
  })
})

describe('the directives of a targeted field', () => {
  it('are parsed from all its lines, with the last one of each name', () => {
    expect(maxAge(own('max-age=60'), own('max-age=5, x=(1 2);y'))).toBe(5)
  })

  it('mean the same as in Cache-Control', () => {
    const { cc } = read(
      own(
        'max-age=1, s-maxage=2, stale-while-revalidate=3, stale-if-error=4, no-store, no-cache, private, public, must-revalidate, proxy-revalidate, must-understand, no-transform, immutable',
      ),
    )
    expect(cc).toEqual({
      present: true,
      noStore: true,
      noCache: true,
      private: true,
      mustRevalidate: true,
      proxyRevalidate: true,
      maxAgeS: 1,
      sMaxageS: 2,
      staleWhileRevalidateS: 3,
      staleIfErrorS: 4,
    })
  })

  it('ignore parameters', () => {
    expect(maxAge(own('max-age=60;x=1;no-store'))).toBe(60)
    expect(read(own('max-age=60;no-store')).cc.noStore).toBe(false)
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
    expect(read(own(`private${value}, no-store${value}, no-cache${value}`)).cc).toMatchObject({
      private: true,
      noStore: true,
      noCache: true,
    })
  })

  it('do not forbid anything with the value false', () => {
    expect(read(own('private=?0, no-store=?0')).cc).toMatchObject({
      private: false,
      noStore: false,
    })
  })
})
