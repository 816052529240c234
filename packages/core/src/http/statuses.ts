// Facts about response statuses.

/** About one caller, one moment or one part; or, as 304, about another response altogether. */
export const NEVER_STORED: ReadonlySet<number> = new Set([
  206, 304, 401, 403, 407, 408, 421, 425, 429,
])

/** RFC 5861 §4: the answers that count as an error an older response may stand in for. */
export const COVERED: ReadonlySet<number> = new Set([500, 502, 503, 504])

/** RFC 9110 §15.6. */
export function titleOf(status: number): string {
  const titles: Readonly<Record<number, string>> = {
    501: 'Not Implemented',
    502: 'Bad Gateway',
    503: 'Service Unavailable',
    504: 'Gateway Timeout',
  }
  return titles[status] ?? 'Internal Server Error'
}
