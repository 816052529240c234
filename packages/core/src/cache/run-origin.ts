// Stage: runs the handler for one request and judges the head of its response before it leaves.
// Waiters are released as soon as the head says that the response is not for them.

import type { Made, StoredResponse } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import type { FillResult, Lead } from '../flight/resolution.ts'
import type { Runtime } from '../flight/runtime.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { toFields } from '../http/fields.ts'
import { headerValues, storableHeaders } from '../http/headers.ts'
import { mintEtag } from '../http/mint-etag.ts'
import { canonicalPath } from '../http/route-pattern.ts'
import { selectFields } from '../http/vary.ts'
import type { BodyKind, LiveSink } from '../ports/exchange.ts'
import {
  type CapturedHead,
  type HeadDecision,
  type HeaderList,
  type InnerCache,
  type Natives,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELD,
  OWN_FIELDS,
  type RequestView,
} from '../ports/exchange.ts'
import type { Lifetimes } from '../ports/store.ts'
import { liveSink } from '../stream/collapse.ts'
import type { CacheConfig } from './cache-config.ts'
import { LEFT_TO_INNER, withRulesOf } from './inner-cache.ts'
import { leaderReply } from './leader-reply.ts'
import { staleReply, statusField } from './respond.ts'
import { RunSlot } from './run-slot.ts'
import { judgeHead, type NotStorable, type Storable } from './storable.ts'
import { withSubjects } from './subjects.ts'
import type { Asked } from './validate.ts'
import { ask, conditionsOf, MISMATCH, meantBy, replyUnchanged } from './validate.ts'

export interface OriginRun {
  readonly request: RequestView
  /** The key without what varies. */
  readonly plainKey: string
  readonly config: CacheConfig<never>
  readonly lead: Lead
  /** Why the request goes to the origin, for Cache-Status. */
  readonly reason: 'uri-miss' | 'vary-miss' | 'stale'
  /** The answer goes to the client of `request`; a refresh has none. */
  readonly forClient: boolean
  /** Whether the app's own settings allow an ETag that its handler did not set. */
  readonly allowsEtag: (natives: Natives | undefined) => boolean
  /** How to run it: on the client's own response, or on a detached one. */
  readonly start: (observer: OriginObserver) => Promise<OriginEnd>
}

export function runOrigin(rt: Runtime, ordered: OriginRun): Promise<FillResult> {
  const run = { ...ordered }
  const { request, lead } = run
  let inner: InnerCache | undefined
  const asked = ask(lead, request)
  return new Promise((settle) => {
    const slot = lead.keepSlot && new RunSlot(lead)
    const resolve = slot === undefined ? settle : slot.before(settle)
    let verdict: Storable | NotStorable | undefined
    let minted: HeaderList = []
    let headAt = 0
    const observer: OriginObserver = {
      conditions: asked?.conditions,
      maxBodyBytes: run.config.maxBodyBytes,
      live: liveOf(run, () => ({ verdict, minted, headAt })),
      onEnd: slot?.onEnd,
      onInner(met) {
        if (met.keyOf(request) === run.plainKey) {
          inner = met
          run.config = withRulesOf(run.config, met)
          return undefined
        }
        resolve(refused(LEFT_TO_INNER, 200))
        const { reason: detail } = LEFT_TO_INNER
        return statusField(run.config, { type: 'forward', reason: run.reason, detail })
      },
      onHead(head, whole, natives) {
        const { config } = run
        headAt = rt.clock.now()
        const about = head.status === 304 ? asked : undefined
        const meant = about === undefined ? head : meantBy(about, head, rt.clock.wallNow())
        verdict = meant ? judgeHead(meant, request, config, rt.clock.wallNow()) : MISMATCH
        if (meant && verdict.store && isEmptied(meant, lead)) verdict = EMPTIED
        if (meant && verdict.store && !lead.isLate)
          verdict = subjectsOf(run, verdict, meant, natives, inner)
        if (!verdict.store) resolve(refused(verdict, head.status))
        if (about !== undefined) {
          const reply = replyUnchanged(rt, run, about, head, meant, detailOf(run, verdict))
          return { action: 'replace', reply }
        }
        minted = mint(run, verdict, head, whole, natives)
        return decide(rt, run, verdict, head, whole, minted)
      },
    }
    const failed = (error: unknown): OriginEnd => ({ type: 'failed', status: 500, error })
    void run
      .start(observer)
      .catch(failed)
      .then((end) => resolve(resultOf(rt, run, verdict, end, minted, asked, headAt)))
  })
}

/** The names that either of two caches gives it: who purges need not know which of them keeps it. */
function subjectsOf(
  { request, config }: OriginRun,
  verdict: Storable,
  head: CapturedHead,
  natives: Natives | undefined,
  inner: InnerCache | undefined,
): Storable | NotStorable {
  const named = withSubjects(verdict, head, request, config, natives)
  if (inner === undefined || !named.store) return named
  return withSubjects(named, head, request, inner.config as CacheConfig<never>, inner.natives)
}

const EMPTIED: NotStorable = { store: false, reason: 'status', failure: false }

/**
 * An answer without a body in the place of a page is more often a mistake than meant, however long it says it is fresh; RFC 9111 §3
 * lets a cache leave it. Its client gets it, and so does everybody else once the page is forgotten, if it was meant.
 */
function isEmptied({ status }: CapturedHead, { previous }: Lead): boolean {
  return (
    (status === 204 || status === 205) &&
    previous !== undefined &&
    previous.entry.body.byteLength > 0
  )
}

/** After originTimeoutMs the fill was given up; what comes is this client's only. */
function isStored({ lead }: OriginRun, verdict: Storable | NotStorable): boolean {
  return verdict.store && lead.fence !== '' && !lead.isLate
}

/** Why it is not stored, if it is not. */
function detailOf(run: OriginRun, verdict: Storable | NotStorable): Detail | undefined {
  if (!verdict.store) return verdict.reason
  if (isStored(run, verdict)) return undefined
  return run.lead.isLate ? 'origin-timeout' : 'store-unavailable'
}

/** The entity tag that the response gets here and in the store, if it has none. */
function mint(
  run: OriginRun,
  verdict: Storable | NotStorable,
  head: CapturedHead,
  whole: Uint8Array | undefined,
  natives: Natives | undefined,
): HeaderList {
  const { config, lead } = run
  const tooLarge = whole !== undefined && whole.byteLength > config.maxBodyBytes
  if (!config.mintEtag || tooLarge || !isStored(run, verdict)) return []
  if (!run.allowsEtag(natives)) return []
  const etag = mintEtag(head, whole, lead.fence)
  return etag === undefined ? [] : [['etag', etag]]
}

interface HeadSeen {
  readonly verdict: Storable | NotStorable | undefined
  readonly minted: HeaderList
  /** Time of the head; age and lifetimes count from here. */
  readonly headAt: number
}

/** Where the body goes while it arrives, for clients that read along (`collapse: 'stream'`). */
function liveOf(run: OriginRun, seen: () => HeadSeen): LiveSink | undefined {
  if (run.config.collapse !== 'stream') return undefined
  return liveSink(run.lead, run.config.maxBodyBytes, (head) => {
    const { verdict, minted, headAt } = seen()
    if (!verdict?.store) return undefined
    const entry = entryOf(run, verdict, head, new Uint8Array(), minted)
    return { entry, freshMs: verdict.freshMs, bornAt: headAt }
  })
}

function decide(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable | NotStorable,
  head: CapturedHead,
  whole: Uint8Array | undefined,
  minted: HeaderList,
): HeadDecision {
  if (!verdict.store && verdict.failure) {
    const reply = staleReply(rt, run.request, run.config, run.lead.previous, head.status)
    if (reply !== undefined) return { action: 'replace', reply }
  }
  const status = statusField(run.config, {
    type: 'forward',
    reason: run.reason,
    status: head.status,
    stored: isStored(run, verdict) || undefined,
    detail: detailOf(run, verdict),
  })
  const varies = verdict.store && run.config.compress?.varies(head)
  const vary: HeaderList = varies ? [['vary', 'Accept-Encoding']] : []
  const add = [...minted, ...vary, ...status]
  const seen = { ...head, added: add, cacheStatus: status, whole, wallNow: rt.clock.wallNow() }
  const instead = run.forClient
    ? leaderReply(run.request, { ...seen, store: verdict.store })
    : undefined
  return { action: 'send', capture: verdict.store, add, remove: OWN_FIELDS, instead }
}

function refused(verdict: NotStorable, status: number): FillResult {
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

function resultOf(
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
    // An adapter declines a response that became one client's own: mostly a cookie was set with the head.
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

function entryOf(
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
