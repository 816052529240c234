// Ranges for which a fill could make the handler read the whole of a file too large to store.
// Requests for them are forwarded, also for all ranges of paths whose response was too large.

import { beginsBeyond } from '../http/byte-range.ts'
import { requestField } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import type { CacheParts } from './cache-parts.ts'

/** A fill may read this many bytes in front of a range, even if no entry may be so large. */
const MOST_DROPPED = 1024 * 1024
/** Limits of `Runtime.largePaths`: paths, and characters of one. */
const MOST_PATHS = 1_000
const LONGEST_PATH = 1_000

const pathOf = ({ host, target }: RequestView): string => host + target.split('?', 1)[0]

export function keepLargePath({ largePaths, clock, passMs }: Runtime, request: RequestView): void {
  const path = pathOf(request)
  if (largePaths.size >= MOST_PATHS) largePaths.clear()
  if (path.length <= LONGEST_PATH) largePaths.set(path, clock.now() + passMs)
}

/**
 * Whether the request wants a part of a response that was too large within the last `passMs`, bytes
 * that no entry can have, or the last bytes of a response of unknown length. A range of a response
 * that is being made comes from that one, and a range of an entry in this process from that entry.
 */
export function isBeyondEntries(
  { rt, config }: CacheParts,
  request: RequestView,
  key: string,
): boolean {
  const range = requestField(request.headers, 'range')
  if (range === undefined) return false
  if (rt.clock.now() < (rt.largePaths.get(pathOf(request)) ?? 0)) return true
  if (rt.flights.has(key) || rt.l1.get(key)?.type === 'copy') return false
  return beginsBeyond(range, Math.max(config.maxBodyBytes, MOST_DROPPED))
}
