// Browsers in front of an app with a cache and one more middleware, in either order. The test
// checks the responses, and that no cookie of one visitor reaches another.
import { gunzipSync } from 'node:zlib'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { type Whole, whole } from '../../../packages/testkit/src/cache-contract/bench.ts'
import type { RunningApp } from '../../harness/apps.ts'
import { ask } from '../../harness/load.ts'

/** A visitor that stores the cookies it gets, as a browser does. */
class Visitor {
  /** Every `name=value` that this visitor got. */
  readonly given = new Set<string>()
  readonly #jar = new Map<string, string>()

  async visit(url: string, headers: Record<string, string> = {}): Promise<Whole> {
    const cookie = [...this.#jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await whole(url, { headers: { ...headers, ...(cookie !== '' && { cookie }) } })
    for (const line of answer.lines['set-cookie'] ?? []) {
      const [pair = ''] = line.split(';')
      const [name = '', ...value] = pair.split('=')
      this.given.add(pair)
      this.#jar.set(name, value.join('='))
    }
    return answer
  }
}

export const PAGE = '<p>stampede '.repeat(500)

/** The body as a browser shows it. */
function textOf({ body, lines }: Whole): string {
  const coding = lines['content-encoding']?.join()
  return (coding === 'gzip' ? gunzipSync(body) : body).toString()
}

/**
 * Visits the page several times with and without compression, and returns the number of hits. The
 * page must be right each time, and no visitor may get a cookie of another. Without the cache, the
 * app must set cookies.
 */
async function expectOwnCookiesAndRightBytes(
  cached: string,
  bare: string,
  isPersonal: boolean,
  afterEach: () => Promise<void>,
): Promise<number> {
  const visitors = [new Visitor(), new Visitor(), new Visitor()]
  let hits = 0
  for (const visitor of visitors) {
    for (const coding of ['gzip', 'identity', 'gzip', 'identity']) {
      const answer = await visitor.visit(`${cached}/page`, { 'accept-encoding': coding })
      expect(answer.status).toBe(200)
      expect(textOf(answer)).toBe(PAGE)
      if (coding === 'identity') expect(answer.lines).not.toHaveProperty('content-encoding')
      if (/; hit;/.test(String(answer.lines['cache-status']))) hits += 1
      await afterEach()
    }
  }
  const all = visitors.flatMap(({ given }) => [...given])
  expect(new Set(all).size).toBe(all.length)
  const stranger = new Visitor()
  await stranger.visit(`${bare}/page`)
  expect(stranger.given.size > 0).toBe(isPersonal)
  // The first visitor got the cookies from the app itself.
  expect(namesOf(visitors[0])).toEqual(namesOf(stranger))
  return hits
}

const namesOf = (visitor: Visitor | undefined): string[] =>
  [...(visitor?.given ?? [])].map((pair) => pair.split('=')[0] ?? '').sort()

/** Fields that differ because of a cache, the time or a fresh session. */
const VOLATILE = ['age', 'cache-status', 'date', 'set-cookie', 'connection', 'keep-alive']
const FRAMING = ['content-length', 'transfer-encoding']

export function shown({ status, lines }: Whole): object {
  const fields = Object.entries(lines).filter(
    ([name]) => !VOLATILE.includes(name) && !FRAMING.includes(name),
  )
  return { status, fields: Object.fromEntries(fields) }
}

/** `in an app behind`: the cache is a front before the whole app. */
export type Order = 'before' | 'after' | 'in an app behind' | 'without'

/** Cases of each layer, before and after the cache. `start` runs the app in an order. */
export function layerCases<Make>(
  layers: ReadonlyArray<readonly [name: string, make: Make, isPersonal: boolean]>,
  start: (order: Order, make: Make, options: object) => Promise<RunningApp>,
): void {
  describe.each(layers)('%s', (_name, make, isPersonal) => {
    it.each(['before', 'after', 'in an app behind'] as const)(
      'sends each visitor the page, and no cookie of another visitor, %s the cache',
      async (order) => {
        for (const cookies of ['ignore', 'bypass']) {
          const clock = new ManualClock()
          const stampede = createStampede({ clock })
          await using cached = await start(order, make, { cookies, stampede })
          await using bare = await start('without', make, {})
          // After each visit the hit-for-miss marker of the page ends.
          const hits = await expectOwnCookiesAndRightBytes(cached.url, bare.url, isPersonal, () =>
            clock.advance(10_000),
          )
          if (isPersonal && cookies === 'bypass') expect(hits).toBe(0)
          else expect(hits).toBeGreaterThanOrEqual(8)
        }
      },
    )

    it.each(['before', 'after', 'in an app behind'] as const)(
      'sends the same fields as without a cache, %s the cache',
      async (order) => {
        await using cached = await start(order, make, { cookies: 'ignore' })
        await using bare = await start('without', make, {})
        for (const path of ['/page', '/written']) {
          const headers = { 'accept-encoding': 'gzip' }
          const expected = shown(await whole(bare.url + path, { headers }))
          for (const _round of [1, 2, 3]) {
            expect(shown(await whole(cached.url + path, { headers }))).toEqual(expected)
          }
        }
      },
    )
  })
}

/** Sends conditions cold and on a hit, with ETags that match and ETags that do not. */
export async function expectConditionsAnswered(url: string): Promise<void> {
  const cold = await whole(`${url}/other`, { headers: { 'if-none-match': '"nothing like it"' } })
  expect([cold.status, cold.body.toString()]).toEqual([200, PAGE])
  const [first, second] = [await whole(`${url}/page`), await whole(`${url}/page`)]
  const tag = first.lines.etag?.join() ?? 'none'
  expect(tag).toMatch(/^(W\/)?"/)
  expect(second.lines.etag).toEqual([tag])
  for (const sent of [tag, `"x", ${tag}`, '*']) {
    const matched = await whole(`${url}/page`, { headers: { 'if-none-match': sent } })
    expect([matched.status, matched.body.length]).toEqual([304, 0])
    if (sent !== '*') expect(matched.lines.etag).toEqual([tag])
  }
  const changed = await whole(`${url}/page`, { headers: { 'if-none-match': '"x"' } })
  expect([changed.status, changed.body.toString()]).toEqual([200, PAGE])
}

/**
 * Checks an app whose first layer puts `x-lang` in front of the path, and whose handler prints the
 * path.
 */
export async function expectToldApart(url: string): Promise<void> {
  for (const _round of [1, 2]) {
    for (const lang of ['de', 'en', '']) {
      const headers = lang === '' ? {} : { 'x-lang': lang }
      for (const path of ['/', '/a?b=1']) {
        const answer = await ask(url + path, { headers })
        expect(answer.body).toBe(`for ${lang && `/${lang}`}${path}`)
        expect(String(answer.headers['cache-status']).includes('; hit')).toBe(_round === 2)
      }
    }
  }
}
