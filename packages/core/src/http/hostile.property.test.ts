import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cacheGroups, responseTags } from '../cache/subjects.ts'
import { canonicalPath } from '../ports/key.ts'
import { isLinear } from '../testing/cpu-time.ts'
import { HOSTILE_PIECES, LONG, repeated, runs } from '../testing/hostile.ts'
import { contentRange, selectRange } from './byte-range.ts'
import { conditionsFor, confirms, freshen, notModified } from './conditional.ts'
import {
  deltaSeconds,
  directivesOf,
  explicitLifetimeMs,
  initialAgeMs,
  isAcceptable,
  isAcceptableOnError,
  parseCacheControl,
  parseHttpDate,
  requestDirectives,
  responseDirectives,
} from './freshness.ts'
import { requestField, reusableHeaders, storableHeaders, trimOws } from './headers.ts'
import { parseIdempotencyKey } from './idempotency-key.ts'
import { matchesPattern, patternProblem } from './route-pattern.ts'
import { parseDictionary, parseList } from './structured-fields.ts'
import { normaliseField, selectFields, selects, varyNames } from './vary.ts'

const NOW = Date.UTC(2026, 0, 1)
const STORED = [
  ['etag', '"a"'],
  ['last-modified', 'Thu, 01 Jan 2026 00:00:00 GMT'],
  ['date', 'Thu, 01 Jan 2026 00:00:10 GMT'],
] as const
const OFFER = { ageMs: 5_000, freshForMs: -1_000 }

/** All parsers of text from clients and handlers, by the source of the text. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'Cache-Control': (text) => parseCacheControl([text]),
  'Cache-Control, directive by directive': (text) => [...directivesOf(text)],
  'delta-seconds': (text) => deltaSeconds(text),
  'Stampede-Cache-Control': (text) => responseDirectives([['own', text]], ['own']),
  Expires: (text) => {
    const headers = [['expires', text]] as const
    return explicitLifetimeMs(responseDirectives(headers, []), headers, NOW)
  },
  'Expires beside an odd Date': (text) => {
    const headers = [
      ['expires', 'Thu, 01 Jan 2026 00:00:00 GMT'],
      ['date', text],
    ] as const
    return explicitLifetimeMs(responseDirectives(headers, []), headers, NOW)
  },
  Age: (text) => initialAgeMs([['age', text]], NOW),
  Date: (text) => initialAgeMs([['date', text]], NOW),
  'an HTTP date': (text) => parseHttpDate(text),
  Vary: (text) => varyNames([['vary', text]]),
  'Accept-Encoding': (text) => normaliseField('accept-encoding', text),
  'Accept-Language': (text) => normaliseField('accept-language', text),
  'a field that Vary names': (text) => selectFields(['x'], { x: text }),
  'a field by any name': (text) => requestField({ a: 'b' }, text),
  Connection: (text) => storableHeaders([['connection', text], ...STORED]),
  'Set-Cookie': (text) => reusableHeaders([['set-cookie', text]]),
  'a dictionary': (text) => parseDictionary([text]),
  'a list': (text) => parseList([text]),
  'Idempotency-Key': (text) => parseIdempotencyKey([text], false),
  'Idempotency-Key, strictly': (text) => parseIdempotencyKey([text], true),
  'Cache-Control of a request': (text) => {
    const wish = requestDirectives({ 'cache-control': text })
    return [isAcceptable(wish, OFFER), isAcceptableOnError(wish, OFFER)]
  },
  'Pragma of a request': (text) => requestDirectives({ pragma: text }),
  Range: (text) => selectRange({ range: text }, STORED, 100),
  'If-Range': (text) => selectRange({ range: 'bytes=0-1', 'if-range': text }, STORED, 100),
  'If-None-Match': (text) => notModified({ 'if-none-match': text }, STORED, 200),
  'If-Modified-Since': (text) => notModified({ 'if-modified-since': text }, STORED, 200),
  ETag: (text) => [conditionsFor([['etag', text]]), confirms(STORED, [['etag', text]])],
  'the fields of a 304': (text) => freshen(STORED, { headers: [['vary', text]] }, NOW),
  'Surrogate-Key': (text) => responseTags([['surrogate-key', text]]),
  'Cache-Tag': (text) => responseTags([['cache-tag', text]]),
  'Cache-Groups': (text) => cacheGroups([['cache-groups', text]]),
  'Cache-Group-Invalidation': (text) =>
    cacheGroups([['cache-group-invalidation', text]], 'cache-group-invalidation'),
  'a path': (text) => canonicalPath(text),
  'a path under a pattern': (text) => matchesPattern('/a/:b/*rest', canonicalPath(`/${text}`)),
  'a pattern': (text) => patternProblem(`/${text}`) ?? matchesPattern(`/${text}`, '/a/b'),
}

const hostile = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.constantFrom(...HOSTILE_PIECES), { maxLength: 12 }) },
  { weight: 1, arbitrary: fc.array(fc.string({ unit: 'binary' }), { maxLength: 3 }) },
)
const text = hostile.map((pieces) => pieces.join(''))

describe.each(Object.entries(READERS))('the parser of %s', (_, read) => {
  it('returns the same result each time, without an error', () => {
    fc.assert(
      fc.property(text, (each) => {
        const first = read(each)
        // A regular expression that keeps its position between calls would fail here.
        expect(read(each)).toEqual(first)
      }),
      runs(400),
    )
  })

  it('takes linear time', () => {
    for (const piece of HOSTILE_PIECES.filter((each) => each !== '')) {
      for (const before of ['', 'a="']) {
        const inputOf = (length: number) => before + repeated(piece, length)
        expect(isLinear(inputOf, read, LONG), `${before}${piece}`).toBe(true)
      }
    }
  })
})

describe('built-in objects of JavaScript', () => {
  it('are unchanged after all parsers have run', () => {
    const before = Object.getOwnPropertyNames(Object.prototype).sort()
    for (const read of Object.values(READERS)) {
      for (const piece of ['__proto__', 'constructor', 'prototype', 'toString']) {
        for (const shape of [piece, `${piece}=1`, `${piece}, a`, `"${piece}"`, `a;${piece}=1`]) {
          read(shape)
        }
      }
    }
    expect(Object.getOwnPropertyNames(Object.prototype).sort()).toEqual(before)
    expect(({} as Record<string, unknown>).a).toBeUndefined()
  })
})

describe('a Cache-Control with an addition', () => {
  const directive = fc.oneof(
    fc.constantFrom('no-store', 'no-cache', 'private', 'must-revalidate', 'proxy-revalidate'),
    fc.constantFrom('public', 'NO-STORE', 'Private="x"', 'no-cache=a', 'immutable'),
    fc
      .tuple(fc.constantFrom('max-age', 's-maxage', 'stale-if-error'), fc.nat(100))
      .map(([name, seconds]) => `${name}=${seconds}`),
  )
  const line = fc.array(directive, { minLength: 1, maxLength: 4 }).map((all) => all.join(', '))

  it('forbids no less than without the addition, and allows no longer times', () => {
    const added = fc.tuple(line, text, fc.boolean())
    fc.assert(
      fc.property(added, ([said, garbage, isLine]) => {
        const before = parseCacheControl([said])
        const after = parseCacheControl(isLine ? [garbage, said] : [`${said}, ${garbage}`])
        for (const [name, limit] of before) expect(after.get(name), name).toBeLessThanOrEqual(limit)
      }),
      runs(2_000),
    )
  })

  it('has the same meaning for any order of its lines', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(line, text), { maxLength: 5 }), (lines) => {
        expect(parseCacheControl([...lines].reverse())).toEqual(parseCacheControl(lines))
      }),
      runs(1_000),
    )
  })

  it('has the same meaning as a targeted field and as Cache-Control', () => {
    const plain = fc.oneof(
      fc.constantFrom('no-store', 'no-cache', 'private', 'must-revalidate', 'public', 'x'),
      fc.nat(10 ** 9).map((seconds) => `max-age=${seconds}`),
    )
    const lines = fc.uniqueArray(plain, {
      minLength: 1,
      selector: (each) => each.split('=')[0],
    })
    fc.assert(
      fc.property(lines, (said) => {
        const { cc } = responseDirectives([['own', said.join(', ')]], ['own'])
        expect(cc).toEqual(parseCacheControl([said.join(', ')]))
      }),
      runs(500),
    )
  })
})

describe("a request's Cache-Control with an addition", () => {
  it('accepts no response that the original field refuses, except by max-stale', () => {
    const said = fc.constantFrom('no-cache', 'max-age=1', 'min-fresh=10', 'max-age=9, min-fresh=1')
    const offer = fc.record({
      ageMs: fc.nat(20_000),
      freshForMs: fc.integer({ min: -20_000, max: 20_000 }),
    })
    fc.assert(
      fc.property(said, text, offer, (wish, garbage, each) => {
        const before = isAcceptable(requestDirectives({ 'cache-control': wish }), each)
        const longer = requestDirectives({ 'cache-control': `${wish}, ${garbage}` })
        if (!longer.has('max-stale') && !before) expect(isAcceptable(longer, each)).toBe(false)
      }),
      runs(2_000),
    )
  })
})

describe('parsed times', () => {
  it('stay equal to the second when they are written and parsed again', () => {
    const second = fc.integer({ min: -62_167_219_200, max: 253_402_300_799 })
    fc.assert(
      fc.property(second, (seconds) => {
        expect(parseHttpDate(new Date(seconds * 1000).toUTCString())).toBe(seconds * 1000)
      }),
      runs(1_000),
    )
    fc.assert(
      fc.property(text, text, (date, age) => {
        const headers = [
          ['date', date],
          ['age', age],
          ['expires', age],
        ] as const
        const ageMs = initialAgeMs(headers, NOW)
        expect(ageMs).toBeGreaterThanOrEqual(0)
        expect(ageMs).toBeLessThanOrEqual(2 ** 31 * 1000)
        const lifetimeMs = explicitLifetimeMs(responseDirectives(headers, []), headers, NOW)
        expect(lifetimeMs).toBeGreaterThanOrEqual(0)
        expect(Number.isFinite(lifetimeMs)).toBe(true)
      }),
      runs(2_000),
    )
  })
})

describe('Vary', () => {
  it('is parsed to sorted names in lower case, once each, or to *', () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 4 }), (lines) => {
        const names = varyNames(lines.map((line) => ['vary', line]))
        const again = varyNames([['vary', names === '*' ? '*' : names.join(',')]])
        expect(again).toEqual(names)
        expect(varyNames([...lines, '*'].map((line) => ['vary', line]))).toBe('*')
        const shouted = lines.toReversed().map((line) => ['vary', asciiUpper(line)] as const)
        expect(varyNames(shouted)).toEqual(names)
      }),
      runs(2_000),
    )
  })

  it('selects the variant again for the same request, and distinguishes an absent field', () => {
    const headers = fc.dictionary(fc.constantFrom('a', 'accept-encoding', 'constructor'), text)
    fc.assert(
      fc.property(headers, text, (present, value) => {
        const names = ['a', 'accept-encoding', 'accept-language', 'constructor']
        const vary = selectFields(names, present)
        expect(selects({ vary }, present)).toBe(true)
        if (present.a === undefined) {
          expect(selects({ vary }, { ...present, a: value })).toBe(false)
        }
      }),
      runs(1_000),
    )
  })

  it('has one normal form for each value', () => {
    const name = fc.constantFrom('accept-encoding', 'accept-language', 'accept', 'x-any')
    fc.assert(
      fc.property(name, text, (field, value) => {
        const once = normaliseField(field, value)
        expect(normaliseField(field, once)).toBe(once)
      }),
      runs(2_000),
    )
  })

  it('treats two Accept-Encoding fields as equal only if they accept the same of br, zstd and gzip', () => {
    const coding = fc.constantFrom('gzip', 'br', 'identity', '*', 'GZIP', 'x')
    const weight = fc.constantFrom('', ';q=0', ';q=1', ' ; q=0.0', ';q=0.5', ';q=2', ';Q=0')
    const field = fc
      .array(fc.tuple(coding, weight), { maxLength: 4 })
      .map((all) => all.map(([name, q]) => name + q).join(', '))
    fc.assert(
      fc.property(field, field, (one, other) => {
        const same = normaliseField('accept-encoding', one)
        if (same !== normaliseField('accept-encoding', other)) return
        for (const each of ['gzip', 'br', 'identity', 'zstd']) {
          expect(takes(one, each), `${one} | ${other}: ${each}`).toBe(takes(other, each))
        }
      }),
      runs(3_000),
    )
  })
})

const asciiUpper = (line: string): string => line.replace(/[a-z]/g, (c) => c.toUpperCase())

/**
 * A second implementation of RFC 9110 §12.5.3: whether the field accepts this coding. Undefined if
 * that is not certain.
 */
function takes(field: string, coding: string): boolean | undefined {
  const weights = new Map<string, number>()
  for (const member of field.toLowerCase().split(',')) {
    const [name = '', q] = member.split(';').map((part) => part.trim())
    if (name === '') continue
    const weight = q === undefined ? 1 : Number(q.slice(2))
    if (weight > 1 || weight > 0 !== (weights.get(name) ?? weight) > 0) return undefined
    weights.set(name, weight)
  }
  const own = weights.get(coding) ?? weights.get('*')
  return own === undefined ? coding === 'identity' : own > 0
}

describe('a range', () => {
  it('selects bytes within the response, for any requested range', () => {
    const number = fc.oneof(fc.nat(200).map(String), fc.constantFrom('', '9'.repeat(30), '-1', 'x'))
    const range = fc.oneof(
      fc.tuple(number, number).map(([first, last]) => `bytes=${first}-${last}`),
      text,
      text.map((each) => `bytes=${each}`),
    )
    fc.assert(
      fc.property(range, fc.nat(150), (asked, length) => {
        const selected = selectRange({ range: asked }, STORED, length)
        if (selected.type === 'whole') return
        const text = contentRange(selected, length)
        expect(text).toMatch(/^bytes (?:\d+-\d+|\*)\/\d+$/)
        if (selected.type === 'unsatisfiable') return
        expect(selected.start).toBeGreaterThanOrEqual(0)
        expect(selected.start).toBeLessThan(selected.end)
        expect(selected.end).toBeLessThanOrEqual(length)
      }),
      runs(2_000),
    )
  })
})

describe('a condition', () => {
  it('matches if the stored ETag is among any other ETags', () => {
    const tag = fc.stringMatching(/^[!#-~]{0,6}$/).map((each) => `"${each}"`)
    const weak = fc.tuple(tag, fc.boolean()).map(([each, isWeak]) => (isWeak ? 'W/' : '') + each)
    fc.assert(
      fc.property(fc.array(weak), weak, fc.nat(9), (others, stored, at) => {
        const sent = others.toSpliced(at, 0, stored).join(', ')
        const opaque = (each: string) => each.replace(/^W\//, '')
        expect(notModified({ 'if-none-match': sent }, [['etag', stored]], 200)).toBe(true)
        const isAmong = others.some((each) => opaque(each) === opaque(stored))
        const without = others.join(', ')
        expect(notModified({ 'if-none-match': without }, [['etag', stored]], 200)).toBe(isAmong)
      }),
      runs(1_000),
    )
  })

  it('never leads to a 304 if it is invalid', () => {
    fc.assert(
      fc.property(
        text.filter((each) => !each.includes('"') && trimOws(each) !== '*'),
        (each) => {
          expect(notModified({ 'if-none-match': each }, STORED, 200)).toBe(false)
        },
      ),
      runs(1_000),
    )
  })
})

describe('a path', () => {
  it('matches the pattern with the same text, and patterns with a parameter for any part', () => {
    const part = fc.array(fc.constantFrom('a', 'B', '%41', '%2F', '%ZZ', 'é', '.', '-'), {
      minLength: 1,
      maxLength: 4,
    })
    const parts = fc.array(
      part.map((each) => each.join('')),
      { minLength: 1, maxLength: 4 },
    )
    fc.assert(
      fc.property(parts, fc.nat(), (each, at) => {
        const path = canonicalPath(`/${each.join('/')}`)
        expect(matchesPattern(`/${each.join('/')}`, path)).toBe(true)
        expect(matchesPattern('/*', path)).toBe(true)
        const i = at % each.length
        expect(matchesPattern(`/${each.with(i, ':any').join('/')}`, path)).toBe(true)
        expect(matchesPattern(`/${each.slice(0, i).concat('*rest').join('/')}`, path)).toBe(true)
        expect(matchesPattern(`/${each.join('/')}/more`, path)).toBe(false)
      }),
      runs(2_000),
    )
  })
})

describe('tags', () => {
  it('are parsed as non-empty names without separators, once each', () => {
    fc.assert(
      fc.property(text, text, (keys, tags) => {
        const names = responseTags([
          ['surrogate-key', keys],
          ['cache-tag', tags],
        ])
        expect(new Set(names).size).toBe(names.length)
        for (const name of names) expect(name).not.toBe('')
        for (const name of names) expect(/[ \t]/.test(name) && name.includes(',')).toBe(false)
      }),
      runs(1_000),
    )
  })
})
