import querystring from 'node:querystring'
import fc from 'fast-check'
import qs from 'qs'
import { describe, expect, it } from 'vitest'
import type { RequestView } from '../ports/exchange.ts'
import { dataKey, groupOf, isDataKey, isVariant } from '../ports/key.ts'
import { isLinear } from '../testing/cpu-time.ts'
import { HOSTILE_PIECES, runs } from '../testing/hostile.ts'
import { type CacheRules, readCacheOptions } from './cache-options.ts'
import { cacheKey } from './key.ts'

interface Native {
  readonly who: string
}

const keyOf = (
  request: Partial<RequestView>,
  rules: CacheRules<Native> = {},
  who = '',
  learned: readonly string[] = [],
): string => {
  const plain = { method: 'GET', scheme: 'http', host: 'a', target: '/', headers: {} }
  return cacheKey({ ...plain, ...request }, { who }, readCacheOptions(rules), learned)
}

const textOf = (pieces: readonly string[], maxLength: number) =>
  fc.array(fc.constantFrom(...pieces), { maxLength }).map((all) => all.join(''))

/** Texts from a few pieces, many of which look like parts of a key. Two are often nearly equal. */
const confusing = textOf(['a', '1:', '2:a', ':', '-', 'v', '\t', 'é', ';', '=', ' '], 4)

/** Such texts as an app may return, which may contain any character. */
const anything = textOf(['a', '\0', '\ud800', '\udc00', '�', '=', 'j"a"', '#', '1:', '{}'], 3)

describe('the keys of two requests', () => {
  const VARIED = ['accept-language', 'x-a'] as const
  const request = fc.record({
    scheme: fc.constantFrom('http', 'https'),
    host: confusing,
    target: confusing.map((text) => `/${text}`),
    headers: fc.dictionary(
      fc.constantFrom(...VARIED, 'x-forwarded-prefix', 'x-original-url', 'cookie'),
      confusing,
    ),
    rewritten: fc.option(confusing, { nil: undefined }),
  })
  const rules: CacheRules<Native> = {
    vary: ['x-a'],
    cookies: { key: ['a', '1'] },
    identity: ({ who }) => who,
  }

  /** All data that must distinguish two requests, not encoded as a key. */
  const described = ({ scheme, host, target, headers, rewritten }: RequestView, who: string) => {
    const { cookie = '', ...others } = headers
    const pairs = String(cookie)
      .split(';')
      .map((pair) => pair.replace(/^ +/, ''))
    const keyed = (name: string) => pairs.filter((pair) => pair.split('=')[0]?.trim() === name)
    const fields = Object.entries(others).map(([name, value]) => [
      name,
      // Space in Accept-Language has no meaning, so the key does not contain it.
      name === 'accept-language' ? String(value).split(';').map(ows).join(';') : value,
    ])
    return JSON.stringify([
      [scheme, host.toLowerCase(), target, rewritten ?? null, who],
      fields.sort(),
      [keyed('a'), keyed('1')],
    ])
  }
  const ows = (part: string) => part.replace(/^[ \t]+|[ \t]+$/g, '')

  it('are equal if and only if all covered parts are equal', () => {
    const pair = fc.tuple(request, anything)
    fc.assert(
      fc.property(pair, pair, fc.boolean(), ([one, whoOne], [other, whoOther], isSame) => {
        const second = isSame ? { ...one, headers: { ...one.headers } } : other
        const who = isSame ? whoOne : whoOther
        const [a, b] = [
          { method: 'GET', ...one },
          { method: 'GET', ...second },
        ]
        const keys = [keyOf(a, rules, whoOne, VARIED), keyOf(b, rules, who, VARIED)]
        const same = described(a, whoOne) === described(b, who)
        expect(keys[0] === keys[1], keys.join('\n')).toBe(same)
      }),
      runs(3_000),
    )
  })

  it('also differ as UTF-8 bytes if they differ', () => {
    fc.assert(
      fc.property(anything, anything, (one, other) => {
        const bytes = (who: string) => Buffer.from(keyOf({}, rules, who)).toString('hex')
        expect(bytes(one) === bytes(other)).toBe(one === other)
        const custom = (text: string) => keyOf({}, { key: () => text })
        const same = Buffer.from(custom(one)).equals(Buffer.from(custom(other)))
        expect(same).toBe(one === other)
      }),
      runs(2_000),
    )
  })
})

describe('the key of a getOrSet value', () => {
  it('differs from the keys of pages, and has no variants', () => {
    fc.assert(
      fc.property(anything, anything, confusing, (one, other, target) => {
        const [a, b] = [dataKey(one), dataKey(other)]
        expect(Buffer.from(a).equals(Buffer.from(b))).toBe(one === other)
        expect(isDataKey(a) && !isVariant(a) && groupOf(a) === a).toBe(true)
        expect(isDataKey(keyOf({ target: `/${target}` }))).toBe(false)
        expect(isDataKey(keyOf({}, { key: () => one }))).toBe(false)
      }),
      runs(1_000),
    )
  })
})

describe('the keys of two queries', () => {
  const parameter = fc
    .array(
      fc.constantFrom(
        ...['a', 'b', '%61', 'page', '[', ']', '[]', '[x]', '%5B', '%5Dx', '=', '.', ';', '+'],
        ...['%', '%ZZ', '%C3', '%E9', '%00', '__proto__', 'constructor', '1', '2', '%3D', '%26'],
      ),
      { maxLength: 5 },
    )
    .map((pieces) => pieces.join(''))
  const query = fc.array(parameter, { maxLength: 5 })

  /** The query parsers of apps: Express 4, Express 5, Koa, and the URL standard. */
  const READERS: Readonly<Record<string, (text: string) => Record<string, unknown>>> = {
    'qs, as Express 4 calls it': (text) => qs.parse(text, { allowPrototypes: true }),
    'qs with dots': (text) => qs.parse(text, { allowDots: true, plainObjects: true }),
    'node:querystring': (text) => ({ ...querystring.parse(text) }),
    URLSearchParams: (text) => {
      const all = new URLSearchParams(text)
      return Object.fromEntries([...all.keys()].map((name) => [name, all.getAll(name)]))
    },
  }

  /** The parsed query as text, independent of the order of names. */
  const shown = (parsed: unknown): string =>
    JSON.stringify(parsed, (_, value: unknown) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
        : value,
    )

  describe.each(Object.entries(READERS))('parsed by %s', (_, read) => {
    it('are equal only if the queries have the same meaning', () => {
      fc.assert(
        fc.property(query, fc.integer(), (parts, seed) => {
          const [one, other] = [parts.join('&'), shuffled(parts, seed).join('&')]
          if (keyOf({ target: `/?${one}` }) !== keyOf({ target: `/?${other}` })) return
          expect(shown(read(one)), `${one} | ${other}`).toBe(shown(read(other)))
        }),
        runs(3_000),
      )
    })

    it('are equal only if the parameters that the query option names are equal', () => {
      const rules: CacheRules<Native> = { query: ['page', 'a[x]'] }
      const counted = (parsed: Record<string, unknown>) => {
        const { page, a, 'a[x]': flat } = parsed
        return shown([page, Object(a).x, flat])
      }
      fc.assert(
        fc.property(query, query, (mine, more) => {
          const [one, other] = [mine.join('&'), [...mine, ...more].join('&')]
          const key = (text: string) => keyOf({ target: `/?${text}` }, rules)
          if (key(one) !== key(other)) return
          expect(counted(read(one)), `${one} | ${other}`).toBe(counted(read(other)))
        }),
        runs(3_000),
      )
    })

    it('are equal only if the parameters that the query option does not ignore are equal', () => {
      const rules: CacheRules<Native> = { query: { ignore: ['page'] } }
      fc.assert(
        fc.property(query, query, (mine, more) => {
          const [one, other] = [mine.join('&'), [...mine, ...more].join('&')]
          const key = (text: string) => keyOf({ target: `/?${text}` }, rules)
          if (key(one) !== key(other)) return
          const { page: _one, ...rest } = read(one)
          const { page: _other, ...others } = read(other)
          expect(shown(rest), `${one} | ${other}`).toBe(shown(others))
        }),
        runs(3_000),
      )
    })
  })

  it('are equal for the same parameters in any order, if no name occurs twice', () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,4}$/), { maxLength: 8 })
    fc.assert(
      fc.property(names, fc.integer(), (each, seed) => {
        const parts = each.map((name, i) => `${name}=${i}`)
        const key = (all: readonly string[]) => keyOf({ target: `/?${all.join('&')}` })
        expect(key(shuffled(parts, seed))).toBe(key(parts))
      }),
      runs(500),
    )
  })

  it('are computed in linear time, also for ten thousand parameters', () => {
    for (const piece of HOSTILE_PIECES) {
      const targetOf = (count: number) => `/?${`${piece}&`.repeat(count)}`
      for (const rules of [{}, { query: ['a'] }]) {
        const read = (target: string) => keyOf({ target }, rules)
        expect(isLinear(targetOf, read, 10_000), piece).toBe(true)
      }
    }
  })
})

function shuffled(parts: readonly string[], seed: number): string[] {
  const left = [...parts]
  const made: string[] = []
  for (let state = seed >>> 0; left.length > 0; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    made.push(...left.splice(state % left.length, 1))
  }
  return made
}
