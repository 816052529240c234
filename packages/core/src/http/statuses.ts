// Response statuses: those stored by default, those never stored, those that stale-if-error covers,
// and their phrases.

/** Statuses that are stored although the response names no lifetime. The default of `statuses`. */
export const STORED_BY_DEFAULT: ReadonlySet<number> = new Set([200, 203, 300, 301, 308])

/**
 * Statuses that are never stored. Such a response is for one caller, for one moment or for a part
 * of the body. A 304 has no body to store.
 */
export const NEVER_STORED: ReadonlySet<number> = new Set([
  206, 304, 401, 403, 407, 408, 421, 425, 429,
])

/** RFC 5861 §4: the error statuses that a stale response may replace. */
export const STALE_IF_ERROR_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504])

/** The phrase of a status (RFC 9110 §15.6). */
export function titleOf(status: number): string {
  const titles: Readonly<Record<number, string>> = {
    501: 'Not Implemented',
    502: 'Bad Gateway',
    503: 'Service Unavailable',
    504: 'Gateway Timeout',
  }
  return titles[status] ?? 'Internal Server Error'
}
