// Revalidation (RFC 9111 §4.3). If the store has an entry from before a fill, the handler gets the
// `ETag` and `Last-Modified` of that entry as conditions, in place of the client's own conditions.
// If the handler responds 304, the client gets the full response that the 304 confirms. If the
// client's own conditions match, it gets a 304.
//
// A 304 with other validators cannot update the entry, and the cache has no other body. So the
// client of the fill gets the stored response, the entry is dropped, and the next fill gets a full
// response.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import type { Detail } from '../http/cache-status.ts'
import { conditionsFor, confirms, freshen } from '../http/conditional.ts'
import { initialAgeMs } from '../http/freshness.ts'
import { toFields, toHeaders } from '../http/headers.ts'
import { selects } from '../http/vary.ts'
import {
  type CapturedHead,
  type HeaderList,
  OWN_FIELD,
  OWN_FIELDS,
  type Reply,
  type RequestView,
} from '../ports/exchange.ts'
import type { CacheParts } from './cache-parts.ts'
import { replyFrom } from './respond.ts'
import type { NotStorable } from './storable.ts'

/** A revalidation: the entry from before the fill, and the conditions that the handler gets. */
export interface Revalidation {
  readonly previous: HeldEntry
  readonly stored: StoredResponse
  readonly conditions: HeaderList
}

/**
 * The revalidation of an entry. Undefined if its status is not 200 (RFC 9110 §15.4.5), or if the
 * cache generated the ETag, because the handler does not know it.
 */
export function revalidationOf(held: HeldEntry, request: RequestView): Revalidation | undefined {
  const { entry } = held
  if (entry.type !== 'response' || entry.status !== 200 || entry.minted) return undefined
  const conditions = conditionsFor(toHeaders(entry.fields))
  if (conditions.length === 0 || !selects(entry, request.headers)) return undefined
  return { previous: held, stored: entry, conditions }
}

/** The stored head with the updates of a 304. Undefined if the 304 is about another response. */
export function updatedHead(
  { stored }: Revalidation,
  head: CapturedHead,
  wallNow: number,
): CapturedHead | undefined {
  const headers = toHeaders(stored.fields)
  if (!confirms(headers, head.headers)) return undefined
  const { own } = stored
  const before = own === undefined ? headers : [...headers, [OWN_FIELD, own] as const]
  return { status: stored.status, headers: freshen(before, head, wallNow) }
}

/** The verdict for a 304 about another response. */
export const MISMATCH: NotStorable = { store: false, reason: 'validator-mismatch', failure: false }

/**
 * The reply to the client of the fill after a 304. `newHead` is the stored head with the updates of
 * the 304. If it is undefined, the client gets the stored response unchanged.
 */
export function replyUnchanged(
  { rt, config }: CacheParts,
  request: RequestView,
  { previous, stored }: Revalidation,
  head: CapturedHead,
  newHead: CapturedHead | undefined,
  detail: Detail | undefined,
): Reply {
  const now = rt.clock.now()
  const facts = { type: 'forward', reason: 'stale', status: head.status, detail } as const
  if (newHead === undefined) return replyFrom(request, config, previous, stored, facts, now)
  const fields = toFields(newHead.headers.filter(([name]) => !PER_REPLY.has(name)))
  const entry = { ...stored, fields, initialAgeMs: initialAgeMs(head.headers, rt.clock.wallNow()) }
  const reply = replyFrom(request, config, { ...previous, bornAt: now }, entry, facts, now)
  return reply.status === 304 ? withOwnFields(reply, head) : reply
}

/** Fields that the cache sets for each reply, or that are for this cache only. */
const PER_REPLY: ReadonlySet<string> = new Set(['age', 'cache-status', ...OWN_FIELDS])

/**
 * Adds the fields of the handler's 304, including cookies, to the 304 for its client. `Vary` is not
 * replaced, because `updatedHead` has merged both fields.
 */
function withOwnFields(reply: Reply, { headers }: CapturedHead): Reply {
  const own = headers.filter(([name]) => !PER_REPLY.has(name) && name !== 'vary')
  const names = new Set(own.map(([name]) => name))
  return { ...reply, headers: [...reply.headers.filter(([name]) => !names.has(name)), ...own] }
}
