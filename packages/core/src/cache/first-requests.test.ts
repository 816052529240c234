import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Events, type StampedeEvent } from '../events.ts'
import { BYPASS_DETAILS, NOT_STORED_DETAILS, OTHER_DETAILS } from '../http/cache-status.ts'
import { timesSlower } from '../testing/cpu-time.ts'
import { adviceOn, FirstRequests } from './first-requests.ts'

const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
afterEach(() => emitWarning.mockClear())
const codes = () => emitWarning.mock.calls.map(([, options]) => (options as { code: string }).code)

/** Counts `outcomes`, each for the URL with its number modulo `urls`. */
function sample(outcomes: readonly string[], urls: number, isPerCaller = false, purged = false) {
  const events = new Events()
  const seen: StampedeEvent[] = []
  events.on('cache.sampled', (event) => seen.push(event))
  if (purged) events.emit({ type: 'entry.purged', key: 'p=/', by: 'path', soft: false })
  const first = new FirstRequests(events, isPerCaller)
  for (const [i, outcome] of outcomes.entries())
    first.count({ method: 'GET', host: 'shop.test', target: `/${i % urls}?token=x` }, outcome)
  return { first, seen }
}
const times = (count: number, outcome: string) => Array.from({ length: count }, () => outcome)

describe('FirstRequests', () => {
  it('emits one event after 100 GET requests, without a reason if each had the cache', () => {
    const { first, seen } = sample([...times(10, 'stored'), ...times(190, 'hit')], 10)
    expect(seen).toMatchObject([
      { type: 'cache.sampled', key: '', requests: 100, stored: 10, hits: 90, reason: undefined },
    ])
    expect(seen[0]).toMatchObject({ fix: undefined, page: undefined })
    expect(first.isOver).toBe(true)
    expect(codes()).toEqual([])
  })

  it('emits no event after 99 requests', () => {
    expect(sample(times(99, 'hit'), 10).seen).toEqual([])
  })

  it('names the most frequent reason, its fix and its page', () => {
    const { seen } = sample(
      [...times(40, 'cookie'), ...times(30, 'status'), ...times(30, 'hit')],
      9,
    )
    expect(seen).toMatchObject([{ hits: 30, reason: 'cookie', ...adviceOn('cookie') }])
    expect(JSON.stringify(seen)).not.toContain('token')
  })

  it('names the reason of earlier responses, not hit-for-miss', () => {
    const { seen } = sample([...times(3, 'private'), ...times(97, 'hit-for-miss')], 3)
    expect(seen).toMatchObject([{ reason: 'private' }])
    expect(codes()).toEqual(['STAMPEDE_NEVER_STORED'])
  })

  it('waits with the warning, not with the event, for a third URL', () => {
    const { first, seen } = sample(times(150, 'cookie'), 2)
    expect(seen).toHaveLength(1)
    expect([first.isOver, codes()]).toEqual([false, []])
    first.count({ method: 'GET', host: 'shop.test', target: '/third' }, 'cookie')
    expect([first.isOver, codes()]).toEqual([true, ['STAMPEDE_NEVER_STORED']])
    expect(seen).toHaveLength(1)
  })

  it('warns if three hosts have a single path', () => {
    const { first } = sample(times(100, 'cookie'), 1)
    const others = ['a.test', 'b.test']
    for (const host of others) first.count({ method: 'GET', host, target: '/0?token=x' }, 'cookie')
    expect(codes()).toEqual(['STAMPEDE_NEVER_STORED'])
  })

  it('does not warn if a later request is a hit', () => {
    const { first } = sample(times(150, 'cookie'), 2)
    first.count({ method: 'GET', host: 'shop.test', target: '/third' }, 'hit')
    expect([first.isOver, codes()]).toEqual([true, []])
  })

  it('warns if repeated URLs are stored each time, and no request is a hit', () => {
    const { seen } = sample(times(100, 'stored'), 10)
    expect(seen).toMatchObject([{ stored: 100, hits: 0, ...adviceOn('never-hit') }])
    expect(codes()).toEqual(['STAMPEDE_NEVER_HIT'])
    expect(emitWarning.mock.calls[0]?.[0]).toContain('for 10 URLs, and had no hit: the entries')
  })

  it.each<[what: string, ...args: Parameters<typeof sample>]>([
    ['most requests are for other URLs', times(100, 'stored'), 60],
    ['each caller has entries of its own', times(100, 'stored'), 10, true],
    ['entries were purged', times(100, 'stored'), 10, false, true],
    ['only refused requests repeat a URL', [...times(150, 'status'), 'stored'], 1],
    ['one request was a hit', [...times(99, 'stored'), 'hit'], 10],
  ])('does not warn about the lack of hits if %s', (_what, ...args) => {
    expect(sample(...args).seen).toHaveLength(1)
    expect(codes()).toEqual([])
  })

  it('counts one page in the time of a few map accesses after the event', () => {
    const { first } = sample(times(100, 'cookie'), 1)
    const [request, calls] = [{ method: 'GET', host: 'shop.test', target: '/0?token=x' }, 50_000]
    const map = new Map<string, number>()
    const count = () => {
      for (let i = 0; i < calls; i++) first.count(request, 'cookie')
    }
    const access = () => {
      for (let i = 0; i < calls; i++) map.set(request.target, (map.get(request.target) ?? 0) + 1)
    }
    expect(timesSlower(count, access, 20)).toBeLessThan(20)
  })

  it('counts no other methods, and no requests that the app excludes', () => {
    const { first } = sample([...times(150, 'option'), ...times(99, 'hit')], 10)
    first.count({ method: 'HEAD', host: 'shop.test', target: '/' }, 'hit')
    expect(first.isOver).toBe(false)
  })
})

describe('adviceOn', () => {
  const page = readFileSync(
    new URL('../../../../docs/guide/why-nothing-is-cached.md', import.meta.url),
    'utf8',
  )
  const sections = [...page.matchAll(/^##+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-'),
  )
  const isHit: readonly string[] = ['soft-timeout', 'origin-queue']
  const details = [...BYPASS_DETAILS, ...NOT_STORED_DETAILS, ...OTHER_DETAILS]

  it.each([...details.filter((each) => !isHit.includes(each)), 'method', 'never-hit'])(
    'has a fix and an existing section for %s',
    (reason) => {
      const { fix = '', page: address = '' } = adviceOn(reason) ?? {}
      expect(fix).not.toBe('')
      expect(sections).toContain(address.split('#')[1])
    },
  )

  it('is undefined for a reason that it does not know', () => {
    expect(adviceOn('other')).toBeUndefined()
    expect(adviceOn('')).toBeUndefined()
  })
})
