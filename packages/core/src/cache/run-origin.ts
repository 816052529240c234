// Stage: runs the handler for one request and judges the head of its response before it leaves.
// Waiters are released as soon as the head says that the response is not for them.

import type { FillResult, Lead, Runtime } from '../flight/runtime.ts'
import { mintEtag } from '../http/mint-etag.ts'
import {
  type CapturedHead,
  type HeadDecision,
  type HeaderList,
  type InnerCache,
  type Natives,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type RequestView,
} from '../ports/exchange.ts'
import type { LiveSink } from '../ports/live.ts'
import { liveSink } from '../stream/collapse.ts'
import type { CacheConfig } from './cache-options.ts'
import { entryOf, refused, resultOf } from './fill-result.ts'
import { LEFT_TO_INNER, withRulesOf } from './inner-cache.ts'
import { leaderReply } from './leader-reply.ts'
import { statusField } from './respond.ts'
import { staleReply } from './stale-if-error.ts'
import { judgeHead, type NotStorable, type Storable } from './storable.ts'
import { withSubjects } from './subjects.ts'
import { ask, MISMATCH, meantBy, replyUnchanged } from './validate.ts'

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
  return new Promise((resolve) => {
    let verdict: Storable | NotStorable | undefined
    let minted: HeaderList = []
    let headAt = 0
    const observer: OriginObserver = {
      conditions: asked?.conditions,
      maxBodyBytes: run.config.maxBodyBytes,
      live: liveOf(run, () => ({ verdict, minted, headAt })),
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
        if (meant && verdict.store && !lead.signal.aborted)
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
