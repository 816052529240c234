// The outcome of a background refresh of a response, for a process warning if it failed.

import type { FillResult } from '../engine/types.ts'
import { messageOf } from '../errors.ts'
import type { OriginEnd, RequestView } from '../ports/exchange.ts'
import { type FailedRefresh, reportRefresh } from '../refresh-failures.ts'
import type { CacheConfig } from './cache-options.ts'
import { isLeftToInner } from './storable.ts'

const STALE = 'The stale response is served until its stale window ends.'
/** Outcome of a refresh whose new response may not be shared. */
const DROPPED = 'The stored response is no longer used.'

/** Called with the result of a refresh. `status` is that of the handler. */
export function reportRun(
  config: CacheConfig<never>,
  request: RequestView,
  result: FillResult,
  status: number | undefined,
  end: OriginEnd | undefined,
): void {
  reportRefresh(config, nameOf(request), failureOf(result, status, end))
}

/** Called if a refresh takes longer than `originTimeoutMs`. */
export function reportTimeout(config: CacheConfig<never>, request: RequestView): void {
  const why = `it did not finish within originTimeoutMs (${config.originTimeoutMs})`
  reportRefresh(config, nameOf(request), { why, outcome: STALE })
}

function failureOf(
  result: FillResult,
  status: number | undefined,
  end: OriginEnd | undefined,
): FailedRefresh | undefined {
  const outcome = result.type === 'pass' && result.remember ? DROPPED : STALE
  if (end?.type === 'failed') return { why: messageOf(end.error), error: end.error, outcome }
  switch (result.type) {
    case 'failure':
      return { why: result.failure.message, error: result.error, outcome }
    case 'abandoned':
      return { why: 'the body ended before it was complete', outcome }
    case 'pass': {
      if (status === 404 || status === 410 || isLeftToInner(result)) return undefined
      const isStatus = result.reason === 'status' && status !== undefined
      const why = isStatus
        ? `the status was ${status}`
        : `the response cannot be stored (${result.reason})`
      return { why, outcome }
    }
    default:
      return undefined
  }
}

/** The name in the warning is the path without the query, because a query may have secrets. */
function nameOf({ target }: RequestView): string {
  return `GET ${target.split('?', 1)[0]}`
}
