import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import {
  explicitLifetimeMs,
  initialAgeMs,
  parseCacheControl,
  parseHttpDate,
  staleWindowsAllowed,
} from './freshness.ts'

const NOW = Date.UTC(2026, 0, 1)
const at = (seconds: number) => new Date(NOW + seconds * 1000).toUTCString()
const lifetime = (
  cacheControl: string | undefined,
  headers: HeaderList = [],
  targeted: boolean = false,
) => {
  const cc = parseCacheControl(cacheControl === undefined ? [] : [cacheControl])
  return explicitLifetimeMs({ cc, targeted }, headers, NOW)
}

describe('explicitLifetimeMs', () => {
  it('is undefined if the response has no freshness', () => {
    expect(lifetime(undefined)).toBeUndefined()
    expect(lifetime('public', [['last-modified', at(-1000)]])).toBeUndefined()
  })

  it('prefers s-maxage to max-age, and max-age to Expires', () => {
    const expires: HeaderList = [['expires', at(30)]]
    expect(lifetime('max-age=10, s-maxage=20', expires)).toBe(20_000)
    expect(lifetime('max-age=10', expires)).toBe(10_000)
    expect(lifetime('public', expires)).toBe(30_000)
    expect(lifetime('max-age=60, s-maxage=0')).toBe(0)
    expect(lifetime('max-age=x', expires)).toBe(0)
  })

  it('ignores Expires if a targeted field is present', () => {
    const expires: HeaderList = [['expires', at(30)]]
    expect(lifetime('must-revalidate', expires, true)).toBeUndefined()
    expect(lifetime('max-age=10', expires, true)).toBe(10_000)
  })

  it('counts Expires from Date, and from now without a valid one', () => {
    expect(
      lifetime(undefined, [
        ['expires', at(30)],
        ['date', at(-10)],
      ]),
    ).toBe(40_000)
    expect(
      lifetime(undefined, [
        ['expires', at(30)],
        ['date', 'yesterday'],
      ]),
    ).toBe(30_000)
  })

  it.each(['0', '-1', '', 'now', '2026-01-02', 'Thu, 01 Jan 2099 00:00:00 CET', '4102444800'])(
    'treats `Expires: %s` as past',
    (value) => expect(lifetime(undefined, [['expires', value]])).toBe(0),
  )

  it('takes the earliest of several Expires', () => {
    expect(
      lifetime(undefined, [
        ['expires', at(30)],
        ['expires', at(20)],
      ]),
    ).toBe(20_000)
    expect(
      lifetime(undefined, [
        ['expires', at(30)],
        ['expires', '0'],
      ]),
    ).toBe(0)
  })

  it('does not overflow', () => {
    expect(lifetime('max-age=99999999999')).toBe(2 ** 31 * 1000)
  })
})

describe('initialAgeMs', () => {
  it.each<[string, number]>([
    ['50', 50_000],
    ['50, 60', 50_000],
    [' 7 ', 7_000],
    ['99999999999', 2 ** 31 * 1000],
    ['-1', 0],
    ['1.5', 0],
    ['x', 0],
    ['x, 50', 0],
    ['', 0],
  ])('parses `Age: %s` as %d ms', (value, expected) => {
    expect(initialAgeMs([['age', value]], NOW)).toBe(expected)
  })

  it('is 0 without Age, and otherwise taken from the first line', () => {
    expect(initialAgeMs([], NOW)).toBe(0)
    expect(
      initialAgeMs(
        [
          ['age', '1'],
          ['age', '9'],
        ],
        NOW,
      ),
    ).toBe(1000)
  })

  it.each<[string, string, number]>([
    ['at least the time since its Date', at(-30), 30_999],
    ['its Age, if that is greater', at(-5), 20_000],
    ['not less for a Date in the future', at(90), 20_000],
    ['not greater for an invalid Date', 'yesterday', 20_000],
    ['no greater than the maximum', 'Mon, 01 Jan 0001 00:00:00 GMT', 2 ** 31 * 1000],
  ])('is %s', (_, date, expected) => {
    const age = initialAgeMs(
      [
        ['date', date],
        ['age', '20'],
      ],
      NOW + 999,
    )
    expect(age).toBe(Math.floor(expected / 1000) * 1000)
  })
})

describe('staleWindowsAllowed', () => {
  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=10', 'no-cache', 'no-cache="x"'])(
    'is false for %s',
    (line) => expect(staleWindowsAllowed(parseCacheControl([line]))).toBe(false),
  )

  it('is true otherwise', () => {
    expect(staleWindowsAllowed(parseCacheControl(['max-age=1, public, immutable']))).toBe(true)
  })
})

describe('parseHttpDate', () => {
  const time = Date.UTC(1994, 10, 6, 8, 49, 37)

  it.each([
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    ' Sun, 06 Nov 1994 08:49:37 GMT\t',
    'SUN, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 nOV 1994 08:49:37 gMt',
    'sunday, 06-NOV-94 08:49:37 gmt',
    'sUN nov  6 08:49:37 1994',
  ])('parses %s', (text) => expect(parseHttpDate(text)).toBe(time))

  it.each([
    '',
    '0',
    '784111777',
    '1994-11-06T08:49:37Z',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun, 31 Feb 1994 08:49:37 GMT',
    'Sun, 00 Nov 1994 08:49:37 GMT',
    'Sun, 06 Foo 1994 08:49:37 GMT',
    'Sun, 06 anF 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:00:00 GMT',
    'Sun, 06 Nov 1994 08:60:37 GMT',
    'Sun, 06 ovD 1994 08:49:37 GMT',
    'Sun,06 Nov 1994 08:49:37 GMT',
    'Sun Nov  0 08:49:37 1994',
  ])('refuses %s', (text) => expect(parseHttpDate(text)).toBeUndefined())

  it('parses a two-digit year as one that is not far in the future', () => {
    expect(parseHttpDate('Friday, 01-Jan-26 00:00:00 GMT')).toBe(Date.UTC(2026, 0, 1))
    expect(parseHttpDate('Friday, 01-Jan-99 00:00:00 GMT')).toBe(Date.UTC(1999, 0, 1))
  })
})
