// Counts of the first GET requests of a `stampedeCache`: one event, and a warning without effect.
// The fix of each reason for which a response is not stored is here, too.

import { BYPASS_DETAILS, NOT_STORED_DETAILS } from '../http/cache-status.ts'
import type { Runtime } from '../runtime.ts'
import { warn } from '../warnings.ts'
import { varyFix } from './option-checks.ts'

const SAMPLE = 100
const LEAST_KEYS = 3

/** The app itself excludes these requests. */
const NOT_COUNTED: ReadonlySet<string> = new Set(['method', 'option', 'closed'])
/** These follow from the reason of an earlier response, which is the one to name. */
const CONSEQUENCES: ReadonlySet<string> = new Set(['hit-for-miss', 'abandoned', 'wait-timeout'])

const FORBIDDEN = 'allow it for pages of all, or send Stampede-Cache-Control: max-age=60 as well'
const VARIES = 'name the fields that the handler reads in Vary, and no others'
const HANDLER = 'look at the errors and the duration of the handler'

type Row = readonly [section: string, fix: string, reasons?: string]

/** Section of the page, the fix in one line, and the reasons. */
const ROWS: readonly Row[] = [
  [
    'set-cookie-and-sessions',
    'with express-session, set saveUninitialized: false and write nothing to the session, or mount ' +
      'it behind the cache',
    'set-cookie',
  ],
  ['cache-control-of-the-response', FORBIDDEN, 'no-store private no-cache'],
  ['cache-control-of-the-response', 'set overrideHeaders: true with ttlMs', 'expired'],
  ['response-is-not-stored', 'set ttlMs, or send Cache-Control: max-age', 'no-freshness'],
  [
    'cookies',
    "for pages of all use cookies: 'ignore', for others cookies: { key: [names] } or identity",
    'cookie',
  ],
  [
    'request-bypasses-the-cache',
    "for pages of one caller use identity, for pages of all authorization: 'ignore'",
    'authorization client-certificate connection-auth',
  ],
  ['vary', VARIES, 'vary-star vary-cookie vary-authorization'],
  ['vary', varyFix('origin'), 'cors-origin'],
  ['statuses', 'set negativeTtlMs or statuses, or send Cache-Control: max-age', 'status'],
  ['response-is-not-stored', 'raise maxBodyBytes', 'too-large'],
  ['hit-for-miss', 'find the reason of an earlier response', 'hit-for-miss'],
  ['redis-unavailable', 'check the address, user and memory of Redis', 'store-unavailable'],
  ['response-is-not-stored', 'the handler threw, or responded with 5xx', 'server-error'],
  ['response-is-not-stored', HANDLER, 'origin-failed origin-timeout wait-timeout abandoned'],
  ['request-bypasses-the-cache', 'send a GET', 'method'],
  ['request-bypasses-the-cache', 'leave out no-store, or do not respect it', 'request-no-store'],
  [
    'stored-but-never-a-hit',
    'the entries expire before the next request, or no two requests have one key',
    'never-hit',
  ],
]

/** The rows of all other reasons. */
const BYPASSED: Row = ['request-bypasses-the-cache', 'change the request as the page says']
const NOT_STORED: Row = ['response-is-not-stored', 'change the response as the page says']

/** The fix of a reason, and the page about it. */
export interface Advice {
  readonly fix: string
  /** File and section of the docs. */
  readonly page: string
}

/** `reason`: a `detail` of Cache-Status, or `never-hit`. Undefined for an unknown one. */
export function adviceOn(reason: string): Advice | undefined {
  const isOneOf = (details: readonly string[] = []) => details.includes(reason)
  const row =
    ROWS.find(([, , reasons]) => isOneOf(reasons?.split(' '))) ??
    (isOneOf(BYPASS_DETAILS) ? BYPASSED : isOneOf(NOT_STORED_DETAILS) ? NOT_STORED : undefined)
  return row && { fix: row[1], page: `docs/guide/why-nothing-is-cached.md#${row[0]}` }
}

type Asked = Readonly<Record<'method' | 'host' | 'target', string>>

/** Counts the first GET requests of one `stampedeCache`. After them, `isOver` is true. */
export class FirstRequests {
  isOver = false
  #requests = 0
  #hits = 0
  #stored = 0
  /** Responses stored for a URL whose response was stored before. */
  #storedAgain = 0
  readonly #keys = new Set<string>()
  readonly #storedKeys = new Set<string>()
  /** Number and first path by reason. The set of reasons is fixed. */
  readonly #reasons = new Map<string, { count: number; readonly path: string }>()
  readonly #events: Runtime['events']
  readonly #isPerCaller: boolean

  /** `isPerCaller`: each caller has entries of its own, so a repeated URL need not be a hit. */
  constructor(events: Runtime['events'], isPerCaller: boolean) {
    this.#events = events
    this.#isPerCaller = isPerCaller
  }

  /**
   * `hit`: the request got an entry, or the response of another request. `stored`: its own response
   * is stored. Else the reason for neither.
   */
  count({ method, host, target }: Asked, outcome: 'hit' | 'stored' | (string & {})): void {
    if (this.isOver || method !== 'GET' || NOT_COUNTED.has(outcome)) return
    this.#requests += 1
    const hasEffect = outcome === 'hit' || outcome === 'stored'
    const key = `${host} ${target}`
    // After the sample, only an effect or a new key can end the count. An app with one page may
    // have neither, and would otherwise report at each request.
    if (this.#requests > SAMPLE && !hasEffect && this.#keys.has(key)) return
    this.#keys.add(key)
    if (outcome === 'hit') this.#hits += 1
    else if (outcome === 'stored') {
      this.#stored += 1
      this.#storedAgain += Number(this.#storedKeys.has(key))
      this.#storedKeys.add(key)
    } else {
      // The path has no query, because a query may have secrets.
      const known = this.#reasons.get(outcome) ?? { count: 0, path: target.split('?', 1)[0] ?? '' }
      known.count += 1
      this.#reasons.set(outcome, known)
    }
    if (this.#requests >= SAMPLE) this.#report()
  }

  /** The event comes once. The warning waits for a third key, because a probe asks for one. */
  #report(): void {
    const [requests, hits, stored] = [this.#requests, this.#hits, this.#stored]
    const [top] = [...this.#reasons].sort(
      ([a, { count: as }], [b, { count: bs }]) =>
        Number(CONSEQUENCES.has(a)) - Number(CONSEQUENCES.has(b)) || bs - as,
    )
    const reason = top?.[0]
    const advice = adviceOn(reason ?? (hits === 0 ? 'never-hit' : ''))
    if (requests === SAMPLE)
      this.#events.emit({
        ...{ type: 'cache.sampled', key: '', requests, stored, hits, reason },
        ...{ fix: advice?.fix, page: advice?.page },
      })
    const hasEffect = hits + stored > 0
    this.isOver = hasEffect || this.#keys.size >= LEAST_KEYS
    if (!hasEffect && this.isOver)
      warn(
        'STAMPEDE_NEVER_STORED',
        `stampedeCache stored no response of its first ${requests} GET requests, and had no hit. ` +
          `The most frequent reason is ${reason}, such as for GET ${top?.[1].path}` +
          `${advice ? `: ${advice.fix}. See ${advice.page}` : ''}.`,
      )
    const isExplained = this.#isPerCaller || this.#events.count('entry.purged') > 0
    if (hits === 0 && this.#storedAgain >= SAMPLE / 2 && !isExplained)
      warn(
        'STAMPEDE_NEVER_HIT',
        `stampedeCache stored ${stored} of its first ${requests} GET requests for ` +
          `${this.#storedKeys.size} URLs, and had no hit: ${adviceOn('never-hit')?.fix}. ` +
          `See ${adviceOn('never-hit')?.page}.`,
      )
    if (this.isOver) for (const set of [this.#keys, this.#storedKeys]) set.clear()
  }
}
