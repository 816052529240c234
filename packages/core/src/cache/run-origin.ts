// Runs the handler for one request. Before the head of the response is sent, storable.ts decides
// whether to store the response. If not, the fill ends then, so that waiters need not wait longer.

import type { FillResult, Lead } from '../engine/types.ts'
import { type StoredResponse, withJitter } from '../entry/entry.ts'
import { lacksValidator, mintEtag } from '../http/conditional.ts'
import { headerValues, storableHeaders, toFields } from '../http/headers.ts'
import { selectFields } from '../http/vary.ts'
import type { FreeSlot } from '../lease/slots.ts'
import {
  type BodyKind,
  type CapturedHead,
  type Exchange,
  type HeadDecision,
  type HeaderList,
  type InnerCache,
  type Natives,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELD,
  OWN_FIELDS,
} from '../ports/exchange.ts'
import { canonicalPath } from '../ports/key.ts'
import { reportRefresh } from '../refresh-warnings.ts'
import type { CacheConfig } from './cache-options.ts'
import type { CacheParts } from './cache-parts.ts'
import { asksForWhole, staleReply, statusField } from './respond.ts'
import {
  dropsPrevious,
  failedRun,
  hasSubjects,
  isLeftToInner,
  judgeHead,
  type NotStorableReason,
  notStored,
  refusalOf,
  replacesBody,
  type Storable,
} from './storable.ts'
import { withSubjects } from './subjects.ts'
import {
  leaderReply,
  type Revalidation,
  replyUnchanged,
  revalidationOf,
  updatedHead,
} from './validate.ts'

/** The request that runs the handler. */
export interface OriginRequest<Native> {
  readonly cache: CacheParts<Native>
  readonly exchange: Exchange<Native>
  /** The key without the `Vary` fields of earlier responses. */
  readonly plainKey: string
  /** `Vary` fields of earlier responses that the key of the last lookup contains. */
  readonly names: readonly string[]
  /** Gets the result of a run for its client, and returns the one that ends the fill. */
  resultOf(result: FillResult, refused: string | undefined): FillResult
}

/** The parameter `fwd` of a miss (RFC 9211 §2.2). */
export function missOf({ names }: Pick<OriginRequest<never>, 'names'>): 'uri-miss' | 'vary-miss' {
  return names.length === 0 ? 'uri-miss' : 'vary-miss'
}

/**
 * One run of the handler for the client, or `behind`: for no client, to refresh a stale entry. The
 * adapter calls its methods.
 */
export class OriginRun<Native> implements OriginObserver {
  readonly conditions: HeaderList | undefined
  readonly maxBodyBytes: number
  readonly onEnd: (() => void) | undefined
  readonly #by: OriginRequest<Native>
  readonly #lead: Lead
  readonly #behind: boolean
  /** Why the request goes to the origin, for Cache-Status. */
  readonly #fwd: 'uri-miss' | 'vary-miss' | 'stale'
  readonly #revalidation: Revalidation | undefined
  readonly #startedAt: number
  #inner: InnerCache | undefined
  /** The options of the cache that is nearest to the handler. */
  #config: CacheConfig<never>
  #storable: Storable | undefined
  /** The ETag that the cache adds to the response and to its entry, as a header list. */
  #minted: HeaderList = NONE
  #status: number | undefined
  /** Time at which the head arrived. Age and lifetimes count from this time. */
  #headAt = 0
  #route: string | undefined
  /** Whether the client of this run gets a stale entry in place of an error. */
  #isStaleServed = false
  #hasEnded = false
  #hasResult = false
  /** Whether the handler needs no slot after the result. */
  #needsNoSlot = false
  #freeSlot: FreeSlot | undefined

  constructor(by: OriginRequest<Native>, lead: Lead, behind: boolean) {
    const { cache, exchange } = by
    const { rt, config } = cache
    const { previous, keepSlot } = lead
    this.#by = by
    this.#lead = lead
    this.#behind = behind
    this.#fwd = behind || previous !== undefined ? 'stale' : missOf(by)
    this.#revalidation = previous && revalidationOf(previous, exchange.request)
    this.#startedAt = rt.clock.now()
    this.#config = config
    this.conditions = this.#revalidation?.conditions
    this.maxBodyBytes = config.maxBodyBytes
    this.onEnd = keepSlot && (() => this.#endSlot())
    if (!behind) return
    const message = `it did not finish within originTimeoutMs (${config.originTimeoutMs})`
    const late = { type: 'failure', failure: { status: 504, message }, error: undefined } as const
    lead.signal.addEventListener('abort', () => this.#report(late), { once: true })
  }

  onInner(inner: InnerCache): HeaderList | undefined {
    const { cache, exchange, plainKey } = this.#by
    if (inner.keyOf(exchange.request) === plainKey) {
      this.#inner = inner
      this.#config = inner.config as CacheConfig<never>
      return undefined
    }
    const detail = 'inner-cache'
    this.#end(notStored(detail, 200))
    return statusField(cache.config, { fwd: this.#fwd, detail })
  }

  onHead(head: CapturedHead, whole?: Uint8Array, natives?: Natives): HeadDecision {
    const { cache, exchange } = this.#by
    const { rt, config, framework } = cache
    const { request } = exchange
    const lead = this.#lead
    const native = (natives?.[0] ?? exchange.native) as Native
    const wallNow = rt.clock.wallNow()
    const { status } = head
    this.#status = status
    this.#headAt = rt.clock.now()
    this.#route = framework.routeOf?.(native)
    const revalidation = status === 304 ? this.#revalidation : undefined
    const judgedHead = revalidation === undefined ? head : updatedHead(revalidation, head, wallNow)
    const verdict = this.#judge(judgedHead, wallNow, natives, whole)
    const refused = typeof verdict === 'string' ? verdict : undefined
    this.#storable = typeof verdict === 'string' ? undefined : verdict
    if (refused !== undefined) this.#end(notStored(refused, status))
    const missing = lead.hasTimedOut ? 'origin-timeout' : 'store-unavailable'
    const stored = (refused === undefined && lead.fence !== '' && !lead.hasTimedOut) || undefined
    const detail = refused ?? (stored ? undefined : missing)
    if (revalidation !== undefined) {
      const reply = replyUnchanged(cache, request, revalidation, head, judgedHead, detail)
      return { action: 'replace', reply }
    }
    if (refused === 'server-error') {
      const { previous } = lead
      const reply = staleReply(cache, request, previous, status)
      if (reply !== undefined) {
        this.#isStaleServed = !this.#behind
        if (!this.#behind) rt.counts.served(previous, 'if-error', true)
        return { action: 'replace', reply }
      }
    }
    if (stored && lacksValidator(head) && framework.allowsEtag?.(native) !== false)
      this.#minted = [['etag', mintEtag(whole, lead.fence)]]
    const cacheStatus = statusField(config, { fwd: this.#fwd, status, stored, detail })
    const minted = this.#minted
    const add = [...minted, ...cacheStatus]
    const capture = refused === undefined
    const instead =
      this.#behind || asksForWhole(request.headers)
        ? undefined
        : leaderReply(request, { ...head, refused, minted, cacheStatus, whole, wallNow })
    return { action: 'send', capture, add, remove: OWN_FIELDS, instead }
  }

  /** A function, because adapters call it without `this`. */
  readonly ended = (end: OriginEnd): void => {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const { cache, exchange } = this.#by
    const { rt, framework } = cache
    const route = rt.counts.route(this.#route ?? framework.routeOf?.(exchange.native))
    route.runs += 1
    route.originMs += rt.clock.now() - this.#startedAt
    if (!this.#behind && !this.#isStaleServed) route.misses += 1
    this.#end(this.#resultOf(end), end)
  }

  /** Ends the fill. Only the first result counts, because the handler may go on after it. */
  #end(result: FillResult, end?: OriginEnd): void {
    if (this.#hasResult) return
    this.#hasResult = true
    const lead = this.#lead
    const refused = refusalOf(result, lead)
    if (refused !== undefined) this.#by.cache.rt.counts.refused(refused, this.#route)
    if (lead.keepSlot !== undefined) this.#keepSlot(result, lead.keepSlot)
    if (!this.#behind) return lead.end(this.#by.resultOf(result, refused))
    if (!lead.hasTimedOut) this.#report(result, end)
    lead.end(result)
  }

  /** The name in the warning is the path without the query, because a query may have secrets. */
  #report(result: FillResult, end?: OriginEnd): void {
    const { cache, exchange } = this.#by
    const { method, target } = exchange.request
    const name = `${method} ${target.split('?', 1)[0]}`
    const error = end?.type === 'failed' ? end.error : undefined
    reportRefresh(cache, name, 'response', result, this.#status, error)
  }

  /** Called when the response has ended, or when its client has left. */
  #endSlot(): void {
    this.#needsNoSlot = true
    this.#freeSlot?.()
  }

  /**
   * Called before the result frees the slot of the fill. If the handler goes on after the result,
   * another slot is taken for it. An inner cache takes a slot for its own run. If this run kept one
   * too, the inner cache could wait for that slot forever.
   */
  #keepSlot(result: FillResult, keepSlot: () => FreeSlot): void {
    if ('entry' in result || isLeftToInner(result)) this.#needsNoSlot = true
    if (!this.#needsNoSlot && !this.#lead.hasTimedOut) this.#freeSlot = keepSlot()
  }

  /**
   * Decides whether the response is storable, and adds its subjects. The tags of an inner cache
   * count too, so that a purge by a tag of either cache removes the entry.
   */
  #judge(
    judgedHead: CapturedHead | undefined,
    wallNow: number,
    natives: Natives | undefined,
    whole: Uint8Array | undefined,
  ): Storable | NotStorableReason {
    // The 304 is about another response.
    if (judgedHead === undefined) return 'validator-mismatch'
    const lead = this.#lead
    const { cache, exchange } = this.#by
    const { request } = exchange
    const verdict = judgeHead(judgedHead, request, this.#config, wallNow, whole?.byteLength)
    if (typeof verdict === 'string') return verdict
    const { previous } = lead
    if (previous !== undefined && replacesBody(judgedHead, previous)) return 'status'
    if (lead.hasTimedOut) return verdict
    const add = (to: Storable, config: CacheConfig<never>, of: Natives | undefined) =>
      hasSubjects(judgedHead, config) ? withSubjects(to, judgedHead, request, config, of) : to
    const tagged = add(verdict, cache.config, natives)
    const inner = this.#inner
    if (inner === undefined || typeof tagged === 'string') return tagged
    return add(tagged, this.#config, inner.natives)
  }

  #resultOf(end: OriginEnd): FillResult {
    if (end.type === 'failed') return failedRun(end)
    if (end.type === 'not-captured') {
      if (end.reason === 'incomplete') return { type: 'abandoned' }
      // The response was storable in `onHead`. After that, the adapter stopped the capture, usually
      // because another layer set a cookie.
      const reason = end.reason === 'declined' ? 'set-cookie' : end.reason
      const drops = dropsPrevious(this.#status)
      return { type: 'pass', reason, remember: true, dropsPrevious: drops }
    }
    const storable = this.#storable
    if (storable === undefined) return { type: 'abandoned' }
    if (end.type === 'replaced') return this.#unchanged(storable, end.head)
    return this.#store(storable, end.head, end.body, this.#minted, end.kind)
  }

  /** The result of a 304: the stored body, with the fields that the 304 updates. */
  #unchanged(storable: Storable, head: CapturedHead): FillResult {
    const revalidation = this.#revalidation
    const wallNow = this.#by.cache.rt.clock.wallNow()
    const newHead = revalidation && updatedHead(revalidation, head, wallNow)
    if (revalidation === undefined || newHead === undefined) return { type: 'abandoned' }
    const { stored } = revalidation
    const updated = this.#store(storable, newHead, stored.body, NONE, stored.kind)
    const { asOf, subjects: added } = updated.entry.provenance
    const subjects = [...new Set([...stored.provenance.subjects, ...added])]
    if (subjects.length > MOST_SUBJECTS)
      return { type: 'pass', reason: 'too-many-tags', remember: true }
    const entry = { ...updated.entry, provenance: { ...stored.provenance, asOf, subjects } }
    return { ...updated, entry }
  }

  #store(
    storable: Storable,
    { status, headers }: CapturedHead,
    body: Uint8Array,
    minted: HeaderList,
    kind: BodyKind | undefined,
  ) {
    const { cache, exchange } = this.#by
    const { target, host, headers: asked } = exchange.request
    const { freshMs, initialAgeMs } = storable
    const own = headerValues(headers, OWN_FIELD)
    const query = target.indexOf('?')
    const provenance = {
      asOf: this.#lead.asOf,
      tookMs: 0,
      subjects: storable.subjects,
      path: canonicalPath(query === -1 ? target : target.slice(0, query)),
      host: host.toLowerCase(),
      route: this.#route,
    }
    const entry: StoredResponse = {
      type: 'response',
      status,
      fields: toFields([...storableHeaders(headers), ...minted]),
      body,
      initialAgeMs,
      vary: selectFields(storable.varyNames, asked),
      provenance,
      minted: minted.length > 0 || undefined,
      own: own.length > 0 ? own.join(', ') : undefined,
      kind,
    }
    const lifetimes = withJitter(freshMs, storable, this.#config.jitter, cache.rt.random)
    return { type: 'store' as const, entry, lifetimes, bornAt: this.#headAt }
  }
}

const NONE: HeaderList = []

/**
 * Limit of the subjects (tags and cache groups) of an entry. Each 304 may add subjects. Above the
 * limit the entry is dropped, and the next fill gets a full response with its present subjects.
 */
const MOST_SUBJECTS = 512
