// Stage: runs the app for one request, judges the head of its answer before it leaves, and says what came
// of it for everybody else. Those who wait are released as soon as the head says that it is not for them.

import type { HeldEntry, Made, StoredResponse } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import { headerValues, storableHeaders } from '../http/headers.ts'
import { mintEtag } from '../http/mint-etag.ts'
import { isWelcomeOnError } from '../http/request-directives.ts'
import { canonicalPath } from '../http/route-pattern.ts'
import { sameSelection, selectFields } from '../http/vary.ts'
import {
  type CapturedHead,
  type HeadDecision,
  type HeaderList,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELD,
  OWN_FIELDS,
  type Reply,
  type RequestView,
} from '../ports/exchange.ts'
import type { LiveSink } from '../ports/live.ts'
import type { Lifetimes } from '../ports/store.ts'
import type { CacheConfig } from './cache-options.ts'
import { liveSink } from './collapse.ts'
import { offerOf, ownNotModified, replyFrom, statusField, wishOf } from './respond.ts'
import type { FillResult, Lead, Runtime } from './runtime.ts'
import { judgeHead, type NotStorable, type Storable } from './storable.ts'
import { withSubjects } from './subjects.ts'
import { standIn } from './trust.ts'
import { type Asked, ask, conditionsOf, MISMATCH, meantBy, replyUnchanged } from './validate.ts'

export interface OriginRun {
  readonly request: RequestView
  readonly config: CacheConfig<never>
  readonly lead: Lead
  /** Why the request goes to the origin, for Cache-Status. */
  readonly reason: 'uri-miss' | 'vary-miss' | 'stale'
  /** The answer goes to the client of `request`; a refresh has none. */
  readonly forClient: boolean
  /** How to run it: on the client's own response, or on a detached one. */
  readonly start: (observer: OriginObserver) => Promise<OriginEnd>
}

/** RFC 5861 §4: the answers that count as an error an older response may stand in for. */
const COVERED = new Set([500, 502, 503, 504])

export function runOrigin(rt: Runtime, run: OriginRun): Promise<FillResult> {
  const { request, config, lead } = run
  const asked = ask(rt, lead, request)
  return new Promise((resolve) => {
    let verdict: Storable | NotStorable | undefined
    let minted: HeaderList = []
    const observer: OriginObserver = {
      conditions: asked?.conditions,
      maxBodyBytes: config.maxBodyBytes,
      live: liveOf(
        rt,
        run,
        () => verdict,
        () => minted,
      ),
      onHead(head, whole, natives) {
        const about = head.status === 304 ? asked : undefined
        const meant = about === undefined ? head : meantBy(about, head, rt.clock.wallNow())
        verdict = meant ? judgeHead(meant, request, config, rt.clock.wallNow()) : MISMATCH
        if (meant && verdict.store && isEmptied(meant, lead)) verdict = EMPTIED
        if (meant && verdict.store && !lead.signal.aborted)
          verdict = withSubjects(verdict, meant, request, config, natives)
        if (!verdict.store) resolve(refused(verdict, head.status))
        if (about !== undefined) {
          const reply = replyUnchanged(rt, run, about, head, meant, detailOf(run, verdict))
          return { action: 'replace', reply }
        }
        minted = mint(run, verdict, head, whole)
        return decide(rt, run, verdict, head, minted)
      },
    }
    const failed = (error: unknown): OriginEnd => ({ type: 'failed', status: 500, error })
    void run
      .start(observer)
      .catch(failed)
      .then((end) => resolve(resultOf(rt, run, verdict, end, minted, asked)))
  })
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
  return verdict.store && lead.fence !== '' && !lead.signal.aborted
}

/** Why it is not stored, if it is not. */
function detailOf(run: OriginRun, verdict: Storable | NotStorable): string | undefined {
  if (!verdict.store) return verdict.reason
  if (isStored(run, verdict)) return undefined
  return run.lead.signal.aborted ? 'origin-timeout' : 'store-unavailable'
}

/** The entity tag that the response gets here and in the store, if it has none. */
function mint(
  run: OriginRun,
  verdict: Storable | NotStorable,
  head: CapturedHead,
  whole: Uint8Array | undefined,
): HeaderList {
  const { config, lead } = run
  const tooLarge = whole !== undefined && whole.byteLength > config.maxBodyBytes
  if (!config.mintEtag || tooLarge || !isStored(run, verdict)) return []
  const etag = mintEtag(head, whole, lead.fence)
  return etag === undefined ? [] : [['etag', etag]]
}

/** What others may be shown of it while it comes. */
function liveOf(
  rt: Runtime,
  run: OriginRun,
  verdict: () => Storable | NotStorable | undefined,
  minted: () => HeaderList,
): LiveSink | undefined {
  if (run.config.collapse !== 'stream') return undefined
  return liveSink(rt, run.lead, run.config.maxBodyBytes, (head) => {
    const judged = verdict()
    if (!judged?.store) return undefined
    return {
      entry: entryOf(run, judged, head, new Uint8Array(), minted()),
      freshMs: judged.freshMs,
    }
  })
}

function decide(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable | NotStorable,
  head: CapturedHead,
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
  return {
    action: 'send',
    capture: verdict.store,
    add: [...minted, ...status],
    remove: OWN_FIELDS,
    notModified:
      run.forClient && verdict.store
        ? ownNotModified(run.request, head, [...minted, ...status])
        : undefined,
  }
}

/** RFC 5861 §4: what to answer with instead of an error, if there is something. */
export function staleReply(
  rt: Runtime,
  request: RequestView,
  config: CacheConfig<never>,
  previous: HeldEntry | undefined,
  status: number,
): Reply | undefined {
  const now = rt.clock.now()
  if (!COVERED.has(status)) return undefined
  // It may have been purged while the origin was at work.
  const held = previous && standIn(rt, previous)
  if (held === undefined || now >= Math.max(held.errorUntil, held.revalidateUntil)) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !sameSelection(entry.vary, request.headers)) return undefined
  if (!isWelcomeOnError(wishOf(config, request), offerOf(held, entry, now))) return undefined
  const ttlS = (held.staleAt - now) / 1000
  const facts = { type: 'hit', ttlS, detail: `stale-if-error/${status}` } as const
  return replyFrom(request, config, held, entry, facts, now)
}

function refused(verdict: NotStorable, status: number): FillResult {
  const { reason } = verdict
  if (!verdict.failure) return { type: 'pass', reason, remember: isOfTheResource(reason, status) }
  const failure = { status, message: `the origin answered ${status}` }
  return { type: 'failure', failure, error: undefined }
}

/** An answer such as 401 or 429, and a callback that failed, may be about this one request: nothing is known of the resource. */
function isOfTheResource(reason: string, status: number): boolean {
  if (reason === 'tags') return false
  return reason !== 'status' || status < 400 || status === 404 || status === 410
}

function resultOf(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable | NotStorable | undefined,
  end: OriginEnd,
  minted: HeaderList,
  asked: Asked | undefined,
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
  if (end.type === 'replaced') return unchanged(rt, run, verdict, end.head, asked)
  const entry = entryOf(run, verdict, end.head, end.body, minted)
  return { type: 'store', entry, lifetimes: lifetimesOf(rt, run, verdict, entry) }
}

/** The body that is stored, and of the rest what the 304 says. */
function unchanged(
  rt: Runtime,
  run: OriginRun,
  verdict: Storable,
  head: CapturedHead,
  asked: Asked | undefined,
): FillResult {
  const meant = asked && meantBy(asked, head, rt.clock.wallNow())
  if (asked === undefined || meant === undefined) return { type: 'abandoned' }
  const { previous, stored } = asked
  const updated = entryOf(run, verdict, meant, stored.body, [])
  const subjects = [...new Set([...stored.made.subjects, ...updated.made.subjects])]
  if (subjects.length > MOST_SUBJECTS)
    return { type: 'pass', reason: 'too-many-tags', remember: true }
  const entry = { ...updated, made: { ...stored.made, asOf: updated.made.asOf, subjects } }
  return { type: 'not-modified', previous, entry, lifetimes: lifetimesOf(rt, run, verdict, entry) }
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
): StoredResponse {
  const own = headerValues(head.headers, OWN_FIELD)
  return {
    type: 'response',
    status: head.status,
    headers: [...storableHeaders(head.headers), ...minted],
    body,
    initialAgeMs,
    vary: selectFields(varyNames, run.request.headers),
    made: madeFor(run, subjects),
    ...(minted.length > 0 && { minted: true as const }),
    ...(own.length > 0 && { own: own.join(', ') }),
  }
}

function madeFor({ request, lead }: OriginRun, subjects: readonly string[] = []): Made {
  const { target, host } = request
  const end = target.indexOf('?')
  const path = canonicalPath(end === -1 ? target : target.slice(0, end))
  return { asOf: lead.asOf, tookMs: 0, subjects, path, host: host.toLowerCase() }
}
