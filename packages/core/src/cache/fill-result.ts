// The result of a run of the handler for all waiters. It is an entry, the old entry found
// unchanged, a failure, or nothing that can be shared.

import type { Made, StoredResponse } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import type { FillResult, Runtime } from '../flight/runtime.ts'
import { toFields } from '../http/fields.ts'
import { headerValues, storableHeaders } from '../http/headers.ts'
import { canonicalPath } from '../http/route-pattern.ts'
import { selectFields } from '../http/vary.ts'
import {
  type BodyKind,
  type CapturedHead,
  type HeaderList,
  type OriginEnd,
  OWN_FIELD,
} from '../ports/exchange.ts'
import type { Lifetimes } from '../ports/store.ts'
import type { OriginRun } from './run-origin.ts'
import type { NotStorable, Storable } from './storable.ts'
import { type Asked, conditionsOf, meantBy } from './validate.ts'

export function refused(verdict: NotStorable, status: number): FillResult {
  const { reason } = verdict
  if (!verdict.failure) return { type: 'pass', reason, remember: isOfTheResource(reason, status) }
  const failure = { status, message: `the origin answered ${status}` }
  return { type: 'failure', failure, error: undefined }
}

/**
 * Reasons that may hold for one request only, so the key is not marked hit-for-miss: the `tags`
 * callback failed, an inner cache took over, one spelling of the URL was redirected.
 */
const OF_ONE_REQUEST: ReadonlySet<string> = new Set(['tags', 'inner-cache', 'self-redirect'])

function isOfTheResource(reason: string, status: number): boolean {
  if (OF_ONE_REQUEST.has(reason)) return false
  return reason !== 'status' || status < 400 || status === 404 || status === 410
}

export function resultOf(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable | NotStorable | undefined,
  end: OriginEnd,
  minted: HeaderList,
  asked: Asked | undefined,
  headAt: number,
): FillResult {
  if (end.type === 'failed') {
    const { status, error } = end
    if (status < 500) {
      return { type: 'pass', reason: 'status', remember: isOfTheResource('status', status) }
    }
    const message = `the origin failed with status ${status}`
    return { type: 'failure', failure: { status: Math.min(status, 599), message }, error }
  }
  if (end.type === 'not-captured') {
    if (end.reason === 'incomplete') return { type: 'abandoned' }
    const reason = end.reason === 'declined' ? 'set-cookie' : end.reason
    return { type: 'pass', reason, remember: true }
  }
  if (verdict === undefined || !verdict.store) return { type: 'abandoned' }
  if (end.type === 'replaced') return unchanged(rt, run, verdict, end.head, asked, headAt)
  const entry = entryOf(run, verdict, end.head, end.body, minted, end.kind)
  const lifetimes = lifetimesOf(rt, run, verdict, entry)
  return { type: 'store', entry, lifetimes, bornAt: headAt }
}

/** The body that is stored, and of the rest what the 304 says. */
function unchanged(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable,
  head: CapturedHead,
  asked: Asked | undefined,
  headAt: number,
): FillResult {
  const meant = asked && meantBy(asked, head, rt.clock.wallNow())
  if (asked === undefined || meant === undefined) return { type: 'abandoned' }
  const { previous, stored } = asked
  const updated = entryOf(run, verdict, meant, stored.body, [], stored.kind)
  const subjects = [...new Set([...stored.made.subjects, ...updated.made.subjects])]
  if (subjects.length > MOST_SUBJECTS)
    return { type: 'pass', reason: 'too-many-tags', remember: true }
  const entry = { ...updated, made: { ...stored.made, asOf: updated.made.asOf, subjects } }
  const lifetimes = lifetimesOf(rt, run, verdict, entry)
  return { type: 'not-modified', previous, entry, lifetimes, bornAt: headAt }
}

/** Each 304 may name more; beyond this the whole is asked for, which says all of them anew. */
const MOST_SUBJECTS = 512

function lifetimesOf(
  rt: Runtime,
  { config }: OriginRun,
  { freshMs, staleWhileRevalidateMs, staleIfErrorMs }: Storable,
  entry: StoredResponse,
): Lifetimes {
  const keepMs = conditionsOf(entry).length > 0 ? config.keepMs : 0
  const windows = { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs }
  return spread(windows, config.jitter, rt.random)
}

export function entryOf(
  run: OriginRun,
  { initialAgeMs, varyNames, subjects }: Storable,
  head: CapturedHead,
  body: Uint8Array,
  minted: HeaderList,
  kind?: BodyKind,
): StoredResponse {
  const own = headerValues(head.headers, OWN_FIELD)
  return {
    type: 'response',
    status: head.status,
    fields: toFields([...storableHeaders(head.headers), ...minted]),
    body,
    initialAgeMs,
    vary: selectFields(varyNames, run.request.headers),
    made: madeFor(run, subjects),
    ...(minted.length > 0 && { minted: true as const }),
    ...(own.length > 0 && { own: own.join(', ') }),
    ...(kind && { kind }),
  }
}

function madeFor({ request, lead }: OriginRun, subjects: readonly string[] = []): Made {
  const { target, host } = request
  const end = target.indexOf('?')
  const path = canonicalPath(end === -1 ? target : target.slice(0, end))
  return { asOf: lead.asOf, tookMs: 0, subjects, path, host: host.toLowerCase() }
}
