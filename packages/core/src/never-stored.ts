// The warning about a `stampedeCache` that stores none of its first responses.

import { warn } from './warnings.ts'

const MOST_REQUESTS = 100
const LEAST_KEYS = 3

/** The app itself excludes these requests. */
const NOT_COUNTED: ReadonlySet<string> = new Set(['method', 'option', 'closed'])
/** These follow from the reason of an earlier response, which is the one to name. */
const CONSEQUENCES: ReadonlySet<string> = new Set(['hit-for-miss', 'abandoned', 'wait-timeout'])

const FORBIDDEN = 'allow it for pages of all, or send Stampede-Cache-Control: max-age=60 as well'
const CALLER = "for pages of one caller use identity, for pages of all authorization: 'ignore'"
const FIXES: Readonly<Record<string, string>> = {
  'set-cookie': 'with express-session, set saveUninitialized: false, or mount it behind the cache',
  'no-store': FORBIDDEN,
  private: FORBIDDEN,
  'no-cache': FORBIDDEN,
  'server-error': 'the handler threw, or responded with 5xx',
  status: 'set negativeTtlMs to store 404 and 410, or statuses',
  'no-freshness': 'set ttlMs, or send Cache-Control: max-age',
  cookie:
    "for pages of all use cookies: 'ignore', for others cookies: { key: [names] } or identity",
  authorization: CALLER,
  'client-certificate': CALLER,
  'connection-auth': CALLER,
}

type Part = 'method' | 'host' | 'target'

/** Watches the responses of one `stampedeCache` until its first commit, hit or warning. */
export class NeverStored {
  isOver = false
  #requests = 0
  readonly #keys = new Set<string>()
  /** Number and first path by reason. The set of reasons is fixed. */
  readonly #reasons = new Map<string, { count: number; readonly path: string | undefined }>()

  /** A request bypassed the cache, or its response was not stored. */
  onRefused({ method, host, target }: Readonly<Record<Part, string>>, reason: string): void {
    if (this.isOver || method !== 'GET' || NOT_COUNTED.has(reason)) return
    this.#requests += 1
    if (this.#keys.size < LEAST_KEYS) this.#keys.add(`${host} ${target}`)
    // The path has no query, because a query may have secrets.
    const known = this.#reasons.get(reason) ?? { count: 0, path: target.split('?', 1)[0] }
    known.count += 1
    this.#reasons.set(reason, known)
    if (this.#requests < MOST_REQUESTS || this.#keys.size < LEAST_KEYS) return
    this.isOver = true
    const [[main, { path }] = [reason, known]] = [...this.#reasons].sort(
      ([a, { count: as }], [b, { count: bs }]) =>
        Number(CONSEQUENCES.has(a)) - Number(CONSEQUENCES.has(b)) || bs - as,
    )
    warn(
      'STAMPEDE_NEVER_STORED',
      `stampedeCache stored no response of its first ${this.#requests} GET requests, and had no hit. ` +
        `The most frequent reason is ${main}, such as for GET ${path}` +
        `${main in FIXES ? `: ${FIXES[main]}` : ''}. See docs/guide/why-nothing-is-cached.md.`,
    )
  }
}
