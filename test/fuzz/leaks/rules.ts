// The rules of the documentation that keep responses about one person apart: which cache options do
// it for which channel. The fuzzer writes about a person only where one of these holds, or the
// response says so itself.

import type { CacheOptions } from '@stampede/core'
import { CHANNELS, type Channel, CREDENTIALS, HEADER_OF } from './people.ts'
import type { Random } from './random.ts'

const INVALIDATIONS = ['never', 'tags', 'parents', 'all'] as const

/** Options of stampedeCache as data. A callback is given by the channels that it reads. */
export interface CacheSpec
  extends Omit<
    CacheOptions<never>,
    'key' | 'identity' | 'bypass' | 'stampede' | 'tags' | 'invalidateOn' | 'query'
  > {
  readonly query?: readonly string[] | { readonly ignore: readonly string[] }
  readonly key?: readonly Channel[]
  readonly identity?: readonly Channel[]
  readonly bypass?: readonly Channel[]
  /** Fixed tags for all, or a callback: the tag of the route, or the secret of the caller. */
  readonly tags?: 'fixed' | 'route' | 'caller'
  readonly invalidateOn?: (typeof INVALIDATIONS)[number]
}

/** The option that keeps values of `channel` apart. `undefined`: none does. */
export function keptApart(spec: CacheSpec, channel: Channel): string | undefined {
  const { identity, key, cookies = 'bypass', authorization = 'bypass' } = spec
  // The cache decides this before a callback can read the body.
  if (channel === 'body') return 'requests with a body bypass'
  if (spec.bypass?.includes(channel)) return 'bypass option'
  if (identity?.includes(channel)) return 'identity option'
  if (key?.includes(channel)) return 'key option'
  if (spec.vary?.includes(HEADER_OF[channel] ?? '')) return 'vary option'
  if (CREDENTIALS.includes(channel)) {
    return authorization === 'bypass' && identity === undefined ? 'credentials bypass' : undefined
  }
  switch (channel) {
    case 'sid':
    case 'tag':
      if (typeof cookies === 'object') {
        return cookies.key.includes(channel) ? 'cookies in the key' : undefined
      }
      return cookies === 'bypass' && identity === undefined ? 'cookies bypass' : undefined
    case 'certificate':
      return identity === undefined ? 'certificates bypass' : undefined
    case 'login':
    case 'authorization':
      return authorization === 'bypass' && identity === undefined
        ? 'authorization bypasses'
        : undefined
    case 'x-forwarded-host':
      return key === undefined ? 'claims in the key' : undefined
    case 'moved':
      return key === undefined ? 'rewritten URL in the key' : undefined
    case 'host':
      return key === undefined ? 'host in the key' : undefined
    case 'url':
      // The `query` option may leave parts of the query out. A handler that reads all of it must
      // not be used with that option.
      return key === undefined && !Array.isArray(spec.query) ? 'URL in the key' : undefined
    default:
      return undefined
  }
}

/** A response without freshness is not stored. */
export function needsFreshness({ ttlMs }: CacheSpec): boolean {
  return ttlMs === undefined
}

/** The cache obeys `max-age=0`. */
export function heedsExpiry({ ttlMs, overrideHeaders }: CacheSpec): boolean {
  return ttlMs === undefined || overrideHeaders !== true
}

/** In real time, windows are so short that they pass within the scenario. */
export function makeCacheSpec(random: Random, focus: Channel, realTime: boolean): CacheSpec {
  const unit = realTime ? 40 : 1_000
  const ms = () => unit * (1 + random.int(5))
  const maybe = <T>(share: number, make: () => T): T | undefined =>
    random.chance(share) ? make() : undefined
  const channels = () => [...new Set([focus, ...random.some(CHANNELS, 0.15)])].sort()
  const headers = (share: number) => {
    const own = HEADER_OF[focus]
    const others = random.some(['x-device', 'accept-language', 'origin'], 0.3)
    return [...new Set([...(own !== undefined && random.chance(share) ? [own] : []), ...others])]
  }
  const spec = {
    ttlMs: maybe(0.7, ms),
    overrideHeaders: maybe(0.3, () => true),
    staleWhileRevalidateMs: maybe(0.5, ms),
    staleIfErrorMs: maybe(0.5, ms),
    negativeTtlMs: maybe(0.2, ms),
    jitter: maybe(0.3, () => 0),
    query: maybe(0.25, () => random.pick([['page'], [], { ignore: ['utm'] }])),
    key: maybe(0.15, channels),
    identity: maybe(0.3, channels),
    vary: maybe(0.3, () => headers(0.7)),
    bypass: maybe(0.04, channels),
    authorization: maybe(0.75, () => 'ignore' as const),
    cookies: maybe(0.85, () => cookiesOf(random)),
    statuses: maybe(0.2, () => [200, 203, 301, 400, 451]),
    maxBodyBytes: maybe(0.12, () => random.pick([0, 40, 2_000])),
    waitMs: maybe(0.2, () => random.pick([20, 30])),
    afterWait: maybe(0.05, () => 'unavailable' as const),
    originTimeoutMs: maybe(0.05, () => 5),
    cacheStatus: maybe(0.04, () => false),
    revalidate: maybe(0.35, () => 'foreground' as const),
    keepMs: maybe(0.35, () => random.pick([0, ms()])),
    tags: maybe(0.3, () => random.pick(['fixed', 'route', 'caller'] as const)),
    invalidateOn: maybe(0.15, () => random.pick(INVALIDATIONS)),
    requestDirectives: maybe(0.1, () => 'respect' as const),
  }
  // Leaves out absent options instead of setting them to undefined, so that a transcript shows the
  // given ones.
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined))
}

function cookiesOf(random: Random): Exclude<CacheSpec['cookies'], undefined> {
  return random.pick(['ignore', 'ignore', { key: ['sid', 'tag'] }, { key: ['sid'] }])
}
