// Counters of one Stampede: misses, bypasses and stale entries served, in total and by route.

import { LATE_REASONS, type LateReason } from '../events.ts'
import { PLAIN_DATA_PREFIX, shownKey } from '../ports/key.ts'

/** Why a stale entry was served. `revalidate`: it is within stale-while-revalidate. */
export type StaleReason = 'revalidate' | LateReason | 'if-error'
const STALE_REASONS: readonly StaleReason[] = ['revalidate', ...LATE_REASONS, 'if-error']

/** Counters of one route pattern, or of one group of `getOrSet` keys. */
export class RouteCounts {
  /** Requests and calls that got a fresh entry. */
  hits = 0
  /** Requests and calls that got a stale entry. */
  stale = 0
  /** Requests and calls that ran the origin, or waited for its result. */
  misses = 0
  /** Requests that bypassed the cache. */
  bypasses = 0
  /**
   * Runs of the origin in requests that used the cache, stored or not, and their total duration.
   */
  runs = 0
  /** Total duration of these runs in ms. */
  originMs = 0
  /** Sum over all hits of the duration of the run that made the entry. */
  savedMs = 0
  /** Bytes of bodies and values served from entries. */
  bytes = 0
}

/** The counters of a route in `stats()`. */
export type RouteStats = Readonly<RouteCounts>

/** The parts of an entry in memory that are counted (`HeldEntry`). */
interface Counted {
  readonly entry: {
    readonly body: Uint8Array
    readonly provenance: { readonly tookMs: number; readonly route?: string | undefined }
  }
  readonly counts?: RouteCounts | undefined
}

/** Limit of the counted routes. All later ones share `(other)`. */
const MOST_ROUTES = 200
const LONGEST_NAME = 200

export class Counts {
  readonly bypasses: Map<string, number> = new Map()
  readonly stale: Record<StaleReason, number> = Object.fromEntries(
    STALE_REASONS.map((reason) => [reason, 0] as const),
  ) as Record<StaleReason, number>
  /** Duration of all fills, in ms. */
  originMs = 0
  /** Duration of all waits for other processes, in ms. */
  waitedMs = 0
  readonly routes: Map<string, RouteCounts> = new Map()
  /** Requests that were not cached, by route and reason. */
  readonly notCached: Map<string, Map<string, number>> = new Map()

  /** The counters of a route. `undefined`: the framework did not name a route. */
  route(name = '(http)'): RouteCounts {
    const known = this.routes.get(name)
    if (known !== undefined) return known
    const isNamed = this.routes.size < MOST_ROUTES && name.length <= LONGEST_NAME
    const counted = isNamed ? name : '(other)'
    const counts = this.routes.get(counted) ?? new RouteCounts()
    this.routes.set(counted, counts)
    return counts
  }

  /** A request that two caches forward counts for each. Only the inner one knows its route. */
  bypass(reason: string, route: string | undefined): void {
    this.bypasses.set(reason, (this.bypasses.get(reason) ?? 0) + 1)
    this.route(route).bypasses += 1
    if (reason !== 'method') this.refused(reason, route)
  }

  /** A GET or HEAD bypassed the cache, or its response was not stored. */
  refused(reason: string, route = '(http)'): void {
    this.route(route)
    const name = this.routes.has(route) ? route : '(other)'
    const reasons = this.notCached.get(name) ?? new Map<string, number>()
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    this.notCached.set(name, reasons)
  }

  /**
   * An entry that was served. `why`: it is stale, and served for this reason. `ranOrigin`: the
   * request or call ran the origin itself, so it saved no time of the origin.
   */
  served(held: Counted | undefined, why?: StaleReason, ranOrigin = false): void {
    if (why !== undefined) this.stale[why] += 1
    const counts = held?.counts
    if (held === undefined || counts === undefined) return
    const { body, provenance } = held.entry
    if (why === undefined) counts.hits += 1
    else counts.stale += 1
    if (!ranOrigin) counts.savedMs += provenance.tookMs
    counts.bytes += body.byteLength
  }
}

/**
 * The name under which an entry is counted: the route of a response, or the part of a `getOrSet`
 * key before its first colon. Undefined: the route is not known.
 */
export function routeOf(
  key: string,
  entry?: Counted['entry'] & { readonly type: string },
): string | undefined {
  if (entry?.type === 'response') return entry.provenance.route
  const isPlain = key.startsWith(PLAIN_DATA_PREFIX)
  const shown = isPlain ? key : shownKey(key)
  const start = isPlain ? PLAIN_DATA_PREFIX.length : 0
  const colon = shown.indexOf(':', start)
  return colon > start ? shown.slice(start, colon) : '(data)'
}
