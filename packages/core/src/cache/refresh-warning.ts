// The outcome of a background refresh of a response, for a process warning if it failed.

import type { FillResult, Lead } from '../engine/types.ts'
import { messageOf } from '../errors.ts'
import type {
  CapturedHead,
  Exchange,
  OriginEnd,
  OriginObserver,
  RequestView,
} from '../ports/exchange.ts'
import { type FailedRefresh, reportRefresh } from '../refresh-failures.ts'
import type { CacheConfig } from './cache-config.ts'
import { STORED_BY_INNER } from './inner-cache.ts'

/** The parts of a refresh that are watched. */
interface Refresh {
  readonly start: (observer: OriginObserver) => Promise<OriginEnd>
  readonly judge: (result: FillResult) => FillResult
}

/** A refresh that reports whether it renewed the entry. */
export function watchRefresh<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  { signal }: Lead,
): Refresh {
  let head: CapturedHead | undefined
  let end: OriginEnd | undefined
  const why = `it did not finish within originTimeoutMs (${config.originTimeoutMs})`
  const report = (failed: FailedRefresh | undefined) =>
    reportRefresh(config, nameOf(exchange.request), failed)
  const onTimeout = () => report({ why, outcome: STALE })
  signal.addEventListener('abort', onTimeout, { once: true })
  return {
    async start(observer) {
      const onHead: OriginObserver['onHead'] = (seen, ...rest) => {
        head = seen
        return observer.onHead(seen, ...rest)
      }
      end = await exchange.redispatch({ ...observer, onHead })
      return end
    },
    judge(result) {
      signal.removeEventListener('abort', onTimeout)
      if (!signal.aborted) report(failureOf(result, head, end))
      return result
    },
  }
}

const STALE = 'The stale response is served until its stale window ends.'
/** Outcome of a refresh whose new response may not be shared. */
const DROPPED = 'The stored response is no longer used.'

function failureOf(
  result: FillResult,
  head: CapturedHead | undefined,
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
      const isGone = head?.status === 404 || head?.status === 410
      if (isGone || result.reason === STORED_BY_INNER.reason) return undefined
      const isStatus = result.reason === 'status' && head !== undefined
      const why = isStatus
        ? `the status was ${head.status}`
        : `the response cannot be stored (${result.reason})`
      return { why, outcome }
    }
    default:
      return undefined
  }
}

/** The name in the warning is the path without the query, because a query may have secrets. */
function nameOf({ target }: RequestView): string {
  const [path] = target.split('?', 1)
  return `GET ${path}`
}
