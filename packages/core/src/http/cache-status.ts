// The Cache-Status field (RFC 9211), which shows how the cache handled a request.

/** RFC 9211 §2.2: the reason for which a request was forwarded to the origin. */
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
  /** Remaining seconds of freshness. Negative if a stale response was served. */
  readonly ttlS: number
  readonly detail?: string | undefined
}

export interface ForwardFacts {
  readonly type: 'forward'
  readonly reason: ForwardReason
  /** Status of the origin's response, if the client got another one. */
  readonly status?: number | undefined
  readonly ttlS?: number | undefined
  readonly stored?: boolean | undefined
  /** `true`: the request got the response of another one. `false`: it waited without success. */
  readonly collapsed?: boolean | undefined
  readonly detail?: string | undefined
}

export type CacheStatusFacts = HitFacts | ForwardFacts

/**
 * RFC 9211 §2: the value of the field. It never has the parameter `key`, because the key contains
 * data of the request.
 */
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

/** RFC 9651 §4.1.4. Rounds down, so a response that is stale for less than 1 s has `ttl=-1`. */
function integer(name: string, value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return ''
  const whole = Math.max(-LARGEST_INTEGER, Math.min(LARGEST_INTEGER, Math.floor(value)))
  return `; ${name}=${whole}`
}

/** RFC 9651 §4.1.1.2: a parameter that is true has no value. */
function boolean(name: string, value: boolean | undefined): string {
  if (value === undefined) return ''
  return value ? `; ${name}` : `; ${name}=?0`
}

const TOKEN = /^[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*$/

/** RFC 9651 §4.1.6 and §4.1.7: a string has only printable ASCII characters. */
function tokenOrString(text: string): string {
  if (TOKEN.test(text)) return text
  return `"${text.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')}"`
}
