// Process warnings for background refreshes that fail. Callers still get the stale entry, so
// without a warning the failure would go unnoticed.

import type { FillResult } from './engine/types.ts'
import { detachedText } from './recent.ts'

/**
 * Limit of names that cause warnings. One fault in the handler of `/products/:id` fails the
 * refreshes of thousands of paths.
 */
const MOST_NAMES_PER_OWNER = 10
/** After this many failures in a row, the fault is probably not a passing one. */
const MANY = 10

/** Failures in a row, by owner and name. Infinity after the second warning. */
const failures = new WeakMap<object, Map<string, number>>()

export interface FailedRefresh {
  readonly why: string
  /** Sentence about the response or value that callers get now. */
  readonly outcome: string
  readonly error?: unknown
}

/**
 * Called at the end of each refresh of `name`, a path or key. Warns at the first failure, and after
 * ten in a row. `owner`: the cache that limits the number of names.
 */
export function reportRefresh(
  owner: object,
  name: string,
  failed: FailedRefresh | undefined,
): void {
  const counts = failures.get(owner) ?? new Map<string, number>()
  const before = counts.get(name)
  if (failed === undefined) {
    if (before !== undefined && before < MANY) counts.set(name, 0)
    return
  }
  if (before === undefined && counts.size >= MOST_NAMES_PER_OWNER) return
  const count = (before ?? 0) + 1
  failures.set(owner, counts)
  counts.set(before === undefined ? detachedText(name) : name, count === MANY ? Infinity : count)
  const { why, outcome } = failed
  if (before === undefined) warn(`${name}: a background refresh failed: ${why}. ${outcome}`, failed)
  if (count !== MANY) return
  const then = 'Fix the cause: after that window, callers get the error.'
  const text = `${name}: ${MANY} background refreshes in a row failed: ${why}. ${outcome} ${then}`
  warn(text, failed)
}

/** Calls `reportRefresh` with the result of a factory. */
export function reportResult(owner: object, name: string, result: FillResult): void {
  const outcome = 'The stale value is served until its stale window ends.'
  const isFailure = result.type === 'failure'
  const failed = isFailure
    ? { why: result.failure.message, outcome, error: result.error }
    : undefined
  reportRefresh(owner, name, failed)
}

function warn(text: string, { error }: FailedRefresh): void {
  const names = { type: 'StampedeRefreshWarning', code: 'STAMPEDE_REFRESH' }
  const detail = error instanceof Error && error.stack ? { detail: error.stack } : {}
  process.emitWarning(text, { ...names, ...detail })
}
