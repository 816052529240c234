// Runs the handler for one request. Before the head of the response is sent, this file decides
// whether to store the response. If not, the fill ends then, so that waiters need not wait longer.

import type { FillResult, Lead } from '../engine/types.ts'
import { type StoredResponse, spread } from '../entry/entry.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { toFields } from '../http/fields.ts'
import { headerValues, storableHeaders } from '../http/headers.ts'
import { mintEtag } from '../http/mint-etag.ts'
import { canonicalPath } from '../http/route-pattern.ts'
import { selectFields } from '../http/vary.ts'
import {
  type BodyKind,
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
import type { Runtime } from '../runtime.ts'
import type { CacheConfig } from './cache-config.ts'
import { STORED_BY_INNER, withRulesOf } from './inner-cache.ts'
import { leaderReply } from './leader-reply.ts'
import { staleReply, statusField } from './respond.ts'
import { RunSlot } from './run-slot.ts'
import {
  failedRun,
  judgeHead,
  LOST_BODY,
  type NotStorable,
  notStored,
  replacesBody,
  type Storable,
} from './storable.ts'
import { withSubjects } from './subjects.ts'
import type { Revalidation } from './validate.ts'
import { conditionsOf, MISMATCH, replyUnchanged, revalidationOf, updatedHead } from './validate.ts'

/** The parameters of one run of the handler. */
export interface RunParameters {
  readonly request: RequestView
  /** The key without the `Vary` fields of earlier responses. */
  readonly plainKey: string
  readonly config: CacheConfig<never>
  readonly lead: Lead
  /** Why the request goes to the origin, for Cache-Status. */
  readonly reason: 'uri-miss' | 'vary-miss' | 'stale'
  /** Whether the response goes to the client of `request`. A background refresh has no client. */
  readonly forClient: boolean
  /** Whether the app's own settings allow an ETag that its handler did not set. */
  readonly allowsEtag: (natives: Natives | undefined) => boolean
  /** The pattern of the route that handled the request. */
  readonly routeOf: (natives: Natives | undefined) => string | undefined
  /** Runs the handler. In a background refresh, its response has no client. */
  readonly start: (observer: OriginObserver) => Promise<OriginEnd>
  /** Gets the result, and returns the one that ends the fill. */
  readonly judge: (result: FillResult) => FillResult
}

export function runOrigin(rt: Runtime, parameters: RunParameters): void {
  const run = new OriginRun(rt, parameters)
  parameters.start(run).then(run.ended, run.failed)
}

/**
 * One run of the handler. The adapter calls its functions. They are fields, not methods, because
 * wrappers copy the object with `{ ...run, onHead }`.
 */
class OriginRun implements OriginObserver {
  readonly conditions: HeaderList | undefined
  readonly maxBodyBytes: number
  readonly onEnd: (() => void) | undefined
  readonly #rt: Runtime
  readonly #parameters: RunParameters
  readonly #slot: RunSlot | undefined
  readonly #revalidation: Revalidation | undefined
  /** The options, with the rules of an inner cache if there is one. */
  #config: CacheConfig<never>
  #inner: InnerCache | undefined
  #verdict: Storable | NotStorable | undefined
  /** The ETag that the cache adds to the response and to its entry, as a header list. */
  #minted: HeaderList = NONE
  /** Time at which the head arrived. Age and lifetimes count from this time. */
  #headAt = 0
  #route: string | undefined
  /** Whether the client of this run gets a stale entry in place of an error. */
  #isStaleServed = false
  #hasResult = false
  readonly #startedAt: number

  constructor(rt: Runtime, parameters: RunParameters) {
    const { lead, request, config } = parameters
    this.#rt = rt
    this.#startedAt = rt.clock.now()
    this.#parameters = parameters
    this.#slot = lead.keepSlot && new RunSlot(lead)
    this.#config = config
    this.#revalidation = revalidationOf(lead, request)
    this.conditions = this.#revalidation?.conditions
    this.maxBodyBytes = config.maxBodyBytes
    this.onEnd = this.#slot?.onEnd
  }

  readonly onInner = (inner: InnerCache): HeaderList | undefined => {
    const { request, plainKey, reason } = this.#parameters
    if (inner.keyOf(request) === plainKey) {
      this.#inner = inner
      this.#config = withRulesOf(this.#config, inner)
      return undefined
    }
    this.#end(notStored(STORED_BY_INNER, 200))
    return statusField(this.#config, { type: 'forward', reason, detail: STORED_BY_INNER.reason })
  }

  readonly onHead = (head: CapturedHead, whole?: Uint8Array, natives?: Natives): HeadDecision => {
    const { request, lead } = this.#parameters
    const wallNow = this.#rt.clock.wallNow()
    this.#headAt = this.#rt.clock.now()
    this.#route = this.#parameters.routeOf(natives)
    const revalidation = head.status === 304 ? this.#revalidation : undefined
    const judgedHead = revalidation === undefined ? head : updatedHead(revalidation, head, wallNow)
    let verdict = judgedHead ? judgeHead(judgedHead, request, this.#config, wallNow) : MISMATCH
    if (judgedHead && verdict.store && replacesBody(judgedHead, lead)) verdict = LOST_BODY
    if (judgedHead && verdict.store && !lead.hasTimedOut)
      verdict = this.#withSubjects(verdict, judgedHead, natives)
    this.#verdict = verdict
    if (!verdict.store) this.#end(notStored(verdict, head.status))
    if (revalidation !== undefined) {
      const run = { request, config: this.#config }
      const detail = this.#detail(verdict)
      const reply = replyUnchanged(this.#rt, run, revalidation, head, judgedHead, detail)
      return { action: 'replace', reply }
    }
    this.#minted = this.#mint(verdict, head, whole, natives)
    return this.#decide(verdict, head, whole, wallNow)
  }

  readonly ended = (end: OriginEnd): void => {
    this.#countRun()
    this.#end(this.#resultOf(end))
  }

  readonly failed = (error: unknown): void => this.ended({ type: 'failed', status: 500, error })

  /** Ends the fill. Only the first result counts, because the handler may go on after it. */
  #end(result: FillResult): void {
    if (this.#hasResult) return
    this.#hasResult = true
    this.#slot?.takeAfter(result)
    this.#parameters.lead.end(this.#parameters.judge(result))
  }

  /** Counts the run, and the miss of its client unless that client got a stale entry. */
  #countRun(): void {
    const { counts, clock } = this.#rt
    const { forClient, routeOf } = this.#parameters
    const route = counts.route(this.#route ?? routeOf(undefined))
    route.runs += 1
    route.originMs += clock.now() - this.#startedAt
    if (forClient && !this.#isStaleServed) counts.miss(route)
  }

  /**
   * Adds the subjects: the tags and cache groups by which purges find the response. The tags of an
   * inner cache count too, so that a purge by a tag of either cache removes the entry.
   */
  #withSubjects(
    verdict: Storable,
    head: CapturedHead,
    natives: Natives | undefined,
  ): Storable | NotStorable {
    const { request } = this.#parameters
    const tagged = withSubjects(verdict, head, request, this.#config, natives)
    const inner = this.#inner
    if (inner === undefined || !tagged.store) return tagged
    return withSubjects(tagged, head, request, inner.config as CacheConfig<never>, inner.natives)
  }

  /** Whether the response is stored: if storable, with a lease, and before `originTimeoutMs`. */
  #isStored(verdict: Storable | NotStorable): boolean {
    const { lead } = this.#parameters
    return verdict.store && lead.fence !== '' && !lead.hasTimedOut
  }

  /** The reason in Cache-Status if the response is not stored. */
  #detail(verdict: Storable | NotStorable): Detail | undefined {
    if (!verdict.store) return verdict.reason
    if (this.#isStored(verdict)) return undefined
    return this.#parameters.lead.hasTimedOut ? 'origin-timeout' : 'store-unavailable'
  }

  #mint(
    verdict: Storable | NotStorable,
    head: CapturedHead,
    whole: Uint8Array | undefined,
    natives: Natives | undefined,
  ): HeaderList {
    const { mintEtag: mints, maxBodyBytes } = this.#config
    const tooLarge = whole !== undefined && whole.byteLength > maxBodyBytes
    if (!mints || tooLarge || !this.#isStored(verdict)) return NONE
    if (!this.#parameters.allowsEtag(natives)) return NONE
    const etag = mintEtag(head, whole, this.#parameters.lead.fence)
    return etag === undefined ? NONE : [['etag', etag]]
  }

  #decide(
    verdict: Storable | NotStorable,
    head: CapturedHead,
    whole: Uint8Array | undefined,
    wallNow: number,
  ): HeadDecision {
    const { request, lead, reason, forClient } = this.#parameters
    const config = this.#config
    const { status } = head
    const capture = verdict.store
    if (!verdict.store && verdict.failure) {
      const { previous } = lead
      const reply = staleReply(this.#rt, request, config, previous, status)
      if (reply !== undefined) {
        this.#isStaleServed = forClient
        if (forClient) this.#rt.counts.servedStale('if-error', previous, true)
        return { action: 'replace', reply }
      }
    }
    const stored = this.#isStored(verdict) || undefined
    const detail = this.#detail(verdict)
    const cacheStatus = statusField(config, { type: 'forward', reason, status, stored, detail })
    const add = [...this.#minted, ...cacheStatus]
    const seen = {
      status,
      headers: head.headers,
      store: capture,
      added: add,
      cacheStatus,
      whole,
      wallNow,
    }
    const instead = forClient ? leaderReply(request, seen) : undefined
    return { action: 'send', capture, add, remove: OWN_FIELDS, instead }
  }

  #resultOf(end: OriginEnd): FillResult {
    if (end.type === 'failed') return failedRun(end)
    if (end.type === 'not-captured') {
      if (end.reason === 'incomplete') return { type: 'abandoned' }
      // The response was storable in `onHead`. After that, the adapter stopped the capture, usually
      // because another layer set a cookie.
      const reason = end.reason === 'declined' ? 'set-cookie' : end.reason
      return { type: 'pass', reason, remember: true }
    }
    const verdict = this.#verdict
    if (verdict === undefined || !verdict.store) return { type: 'abandoned' }
    if (end.type === 'replaced') return this.#unchanged(verdict, end.head)
    const entry = this.#entryOf(verdict, end.head, end.body, this.#minted, end.kind)
    const lifetimes = this.#lifetimes(verdict, entry)
    return { type: 'store', entry, lifetimes, bornAt: this.#headAt }
  }

  /** The result of a 304: the stored body, with the fields that the 304 updates. */
  #unchanged(verdict: Storable, head: CapturedHead): FillResult {
    const revalidation = this.#revalidation
    const newHead = revalidation && updatedHead(revalidation, head, this.#rt.clock.wallNow())
    if (revalidation === undefined || newHead === undefined) return { type: 'abandoned' }
    const { previous, stored } = revalidation
    const updated = this.#entryOf(verdict, newHead, stored.body, NONE, stored.kind)
    const subjects = [...new Set([...stored.provenance.subjects, ...updated.provenance.subjects])]
    if (subjects.length > MOST_SUBJECTS)
      return { type: 'pass', reason: 'too-many-tags', remember: true }
    const entry = {
      ...updated,
      provenance: { ...stored.provenance, asOf: updated.provenance.asOf, subjects },
    }
    const lifetimes = this.#lifetimes(verdict, entry)
    return { type: 'not-modified', previous, entry, lifetimes, bornAt: this.#headAt }
  }

  #lifetimes(
    { freshMs, staleWhileRevalidateMs, staleIfErrorMs }: Storable,
    entry: StoredResponse,
  ): Lifetimes {
    const { keepMs: configured, jitter } = this.#config
    const keepMs = configured > 0 && conditionsOf(entry).length > 0 ? configured : 0
    const windows = { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs }
    return spread(windows, jitter, this.#rt.random)
  }

  #entryOf(
    { initialAgeMs, varyNames, subjects }: Storable,
    { status, headers }: CapturedHead,
    body: Uint8Array,
    minted: HeaderList,
    kind?: BodyKind,
  ): StoredResponse {
    const { request, lead } = this.#parameters
    const own = headerValues(headers, OWN_FIELD)
    const { target, host } = request
    const query = target.indexOf('?')
    const path = canonicalPath(query === -1 ? target : target.slice(0, query))
    const provenance = {
      asOf: lead.asOf,
      tookMs: 0,
      subjects,
      path,
      host: host.toLowerCase(),
      route: this.#route,
    }
    return {
      type: 'response',
      status,
      fields: toFields([...storableHeaders(headers), ...minted]),
      body,
      initialAgeMs,
      vary: selectFields(varyNames, request.headers),
      provenance,
      minted: minted.length > 0 || undefined,
      own: own.length > 0 ? own.join(', ') : undefined,
      kind,
    }
  }
}

const NONE: HeaderList = []

/**
 * Limit of the subjects (tags and cache groups) of an entry. Each 304 may add subjects. Above the
 * limit the entry is dropped, and the next fill gets a full response with its present subjects.
 */
const MOST_SUBJECTS = 512
