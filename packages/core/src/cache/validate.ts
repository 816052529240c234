// Stage: a fill that has an older response asks the handler whether it is still current (RFC 9111
// §4.3). The conditions of that response replace the client's own. A 304 is never the client's: the
// client gets the full response that the 304 stands for.
//
// A 304 that names another response than the one it was asked about cannot be used to update anything, and there is no body but the
// one it says is good. So its own client gets that, nothing is kept, and the next fill asks for the whole.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import type { Lead } from '../flight/resolution.ts'
import type { Runtime } from '../flight/runtime.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { toFields, toHeaders } from '../http/fields.ts'
import { conditionsFor, freshen, isAbout } from '../http/freshen.ts'
import { initialAgeMs } from '../http/freshness.ts'
import { sameSelection } from '../http/vary.ts'
import {
  type CapturedHead,
  type HeaderList,
  OWN_FIELD,
  OWN_FIELDS,
  type Reply,
  type RequestView,
} from '../ports/exchange.ts'
import type { CacheConfig } from './cache-config.ts'
import { replyFrom } from './respond.ts'
import type { NotStorable } from './storable.ts'

/** What the app is asked about. */
export interface Asked {
  readonly previous: HeldEntry
  readonly stored: StoredResponse
  readonly conditions: HeaderList
}

/** Conditions on a validator of the app's own; only 200 becomes 304 (RFC 9110 §15.4.5). */
export function conditionsOf({ status, fields, minted }: StoredResponse): HeaderList {
  return status === 200 && !minted ? conditionsFor(toHeaders(fields)) : []
}

export function ask({ previous: held }: Lead, request: RequestView): Asked | undefined {
  if (held?.entry.type !== 'response') return undefined
  const { entry } = held
  const conditions = conditionsOf(entry)
  if (conditions.length === 0 || !sameSelection(entry.vary, request.headers)) return undefined
  return { previous: held, stored: entry, conditions }
}

/** The head of the whole that a 304 stands for. Undefined: it is about something else. */
export function meantBy(
  { stored }: Asked,
  head: CapturedHead,
  wallNow: number,
): CapturedHead | undefined {
  const headers = toHeaders(stored.fields)
  if (!isAbout(headers, head.headers)) return undefined
  const { own } = stored
  const before = own === undefined ? headers : [...headers, [OWN_FIELD, own] as const]
  return { status: stored.status, headers: freshen(before, head, wallNow) }
}

/** A 304 that is about something else. */
export const MISMATCH: NotStorable = { store: false, reason: 'validator-mismatch', failure: false }

/** What the client gets whose request the 304 answered: `meant`, or what is stored as it is. */
export function replyUnchanged(
  rt: Runtime,
  { request, config }: { readonly request: RequestView; readonly config: CacheConfig<never> },
  { previous, stored }: Asked,
  head: CapturedHead,
  meant: CapturedHead | undefined,
  detail: Detail | undefined,
): Reply {
  const now = rt.clock.now()
  const facts = { type: 'forward', reason: 'stale', status: head.status, detail } as const
  if (meant === undefined) return replyFrom(request, config, previous, stored, facts, now)
  const fields = toFields(meant.headers.filter(([name]) => !MADE_ANEW.has(name)))
  const entry = { ...stored, fields, initialAgeMs: initialAgeMs(head.headers, rt.clock.wallNow()) }
  const reply = replyFrom(request, config, { ...previous, bornAt: now }, entry, facts, now)
  return reply.status === 304 ? withOwnFields(reply, head) : reply
}

/** Made for each answer, or for us alone. */
const MADE_ANEW: ReadonlySet<string> = new Set(['age', 'cache-status', ...OWN_FIELDS])

/** The client is answered 304 too, so it gets the app's own, cookies and all; but Vary as `freshen` made it. */
function withOwnFields(reply: Reply, { headers }: CapturedHead): Reply {
  const own = headers.filter(([name]) => !MADE_ANEW.has(name) && name !== 'vary')
  const names = new Set(own.map(([name]) => name))
  return { ...reply, headers: [...reply.headers.filter(([name]) => !names.has(name)), ...own] }
}
