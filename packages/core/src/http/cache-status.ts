// The Cache-Status field (RFC 9211): what the cache did with a request, and why.

/** RFC 9211 §2.2: why a request went to the origin. */
export type ForwardReason =
  | 'bypass'
  | 'method'
  | 'uri-miss'
  | 'vary-miss'
  | 'miss'
  | 'request'
  | 'stale'
  | 'partial'

export interface HitFacts {
  readonly type: 'hit'
  /** Seconds of freshness left; negative when a stale response was served. */
  readonly ttlS: number
  readonly detail?: string | undefined
}

export interface ForwardFacts {
  readonly type: 'forward'
  readonly reason: ForwardReason
  /** Status of the origin, if it is another than the client got. */
  readonly status?: number | undefined
  readonly ttlS?: number | undefined
  readonly stored?: boolean | undefined
  /** `true`: joined another's request; `false`: waited, and had to go itself. */
  readonly collapsed?: boolean | undefined
  readonly detail?: string | undefined
}

export type CacheStatusFacts = HitFacts | ForwardFacts

/** RFC 9211 §2: one list member. The `key` parameter is never sent, it would show what is keyed. */
export function cacheStatus(name: string, facts: CacheStatusFacts): string {
  let text = tokenOrString(name)
  if (facts.type === 'hit') {
    text += `; hit${integer('ttl', facts.ttlS)}`
  } else {
    text += `; fwd=${facts.reason}`
    text += integer('fwd-status', facts.status) + integer('ttl', facts.ttlS)
    text += boolean('stored', facts.stored) + boolean('collapsed', facts.collapsed)
  }
  return facts.detail === undefined ? text : `${text}; detail=${tokenOrString(facts.detail)}`
}

const LARGEST_INTEGER = 999_999_999_999_999

/** RFC 9651 §4.1.4. Rounded down: what is stale by less than a second is not `ttl=0`. */
function integer(name: string, value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return ''
  const whole = Math.max(-LARGEST_INTEGER, Math.min(LARGEST_INTEGER, Math.floor(value)))
  return `; ${name}=${whole}`
}

/** RFC 9651 §4.1.1.2: a true parameter is its bare name. */
function boolean(name: string, value: boolean | undefined): string {
  if (value === undefined) return ''
  return value ? `; ${name}` : `; ${name}=?0`
}

const TOKEN = /^[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*$/

/** RFC 9651 §4.1.6 and §4.1.7: a string holds printable ASCII only. */
function tokenOrString(text: string): string {
  if (TOKEN.test(text)) return text
  return `"${text.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')}"`
}
