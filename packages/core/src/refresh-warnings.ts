// Process warnings for background refreshes that fail. Callers still get the stale entry, so
// without a warning the failure would go unnoticed.

import type { FillResult } from './engine/types.ts'
import { messageOf } from './errors.ts'
import { detachedText } from './http/headers.ts'

/**
 * Limit of names that cause warnings. One fault in the handler of `/products/:id` fails the
 * refreshes of thousands of paths.
 */
const MOST_NAMES_PER_OWNER = 10
/** After this many failures in a row, the fault is probably not a passing one. */
const MANY = 10

/** Failures in a row, by owner and name. Infinity after the second warning. */
const failures = new WeakMap<object, Map<string, number>>()

/**
 * Called with the result of each refresh of `name`, a path or key. Warns at the first failure, and
 * after ten in a row. `owner`: the cache that limits the number of names. `status` and `error` are
 * those of the handler.
 */
export function reportRefresh(
  owner: object,
  name: string,
  noun: 'response' | 'value',
  result: FillResult,
  status?: number,
  error: unknown = result.type === 'failure' ? result.error : undefined,
): void {
  const why = error === undefined ? failureOf(result, status) : messageOf(error)
  const counts = failures.get(owner) ?? new Map<string, number>()
  const before = counts.get(name)
  if (why === undefined && before !== undefined && before < MANY) counts.set(name, 0)
  if (why === undefined || (before === undefined && counts.size >= MOST_NAMES_PER_OWNER)) return
  const count = (before ?? 0) + 1
  failures.set(owner, counts)
  counts.set(before === undefined ? detachedText(name) : name, count === MANY ? Infinity : count)
  if (before !== undefined && count !== MANY) return
  const [what, then] =
    before === undefined
      ? ['a background refresh failed', '']
      : [`${MANY} background refreshes in a row failed`, AFTER_MANY]
  const isDropped = result.type === 'pass' && result.remember
  const outcome = isDropped ? DROPPED : `The stale ${noun} is served until its stale window ends.`
  process.emitWarning(`${name}: ${what}: ${why}. ${outcome}${then}`, {
    type: 'StampedeRefreshWarning',
    code: 'STAMPEDE_REFRESH',
    ...(error instanceof Error && error.stack && { detail: error.stack }),
  })
}

const AFTER_MANY = ' Fix the cause: after that window, callers get the error.'
/** Outcome of a refresh whose new response may not be shared. */
const DROPPED = 'The stored response is no longer used.'

/** Undefined if the refresh succeeded, or if the resource no longer exists. */
function failureOf(result: FillResult, status: number | undefined): string | undefined {
  if (result.type === 'failure') return result.failure.message
  if (result.type === 'abandoned') return 'the body ended before it was complete'
  if (result.type !== 'pass' || status === 404 || status === 410) return undefined
  const { reason } = result
  if (reason === 'inner-cache') return undefined
  return reason === 'status' && status !== undefined
    ? `the status was ${status}`
    : `the response cannot be stored (${reason})`
}
