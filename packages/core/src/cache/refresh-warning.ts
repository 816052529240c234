// Process warnings for background refreshes that fail. Clients still get the stale response, so
// without a warning the failure would go unnoticed.

import { messageOf } from '../errors.ts'
import type { FillResult, Lead } from '../flight/resolution.ts'
import type { CapturedHead, Exchange, OriginEnd, OriginObserver } from '../ports/exchange.ts'
import { detachedText } from '../recent.ts'
import type { CacheConfig } from './cache-config.ts'
import { STORED_BY_INNER } from './inner-cache.ts'

/** Without this limit, one fault in the handler of `/products/:id` warns for thousands of paths. */
const MOST_PATHS_PER_CACHE = 10
/** Paths with a warning, by the options of their cache. */
const warned = new WeakMap<object, Set<string>>()

type Start = (observer: OriginObserver) => Promise<OriginEnd>

/** Runs a refresh, and warns once per path if it does not renew the entry. */
export function watchRefresh<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  { signal }: Lead,
  run: (start: Start) => Promise<FillResult>,
): Promise<FillResult> {
  let head: CapturedHead | undefined
  let end: OriginEnd | undefined
  const start: Start = async (observer) => {
    const onHead: OriginObserver['onHead'] = (seen, ...rest) => {
      head = seen
      return observer.onHead(seen, ...rest)
    }
    end = await exchange.redispatch({ ...observer, onHead })
    return end
  }
  const why = `it did not finish within originTimeoutMs (${config.originTimeoutMs})`
  const onTimeout = () => warn(exchange, config, { why, dropped: false })
  signal.addEventListener('abort', onTimeout, { once: true })
  return run(start).then((result) => {
    signal.removeEventListener('abort', onTimeout)
    const failed = signal.aborted ? undefined : failureOf(result, head, end)
    if (failed !== undefined) warn(exchange, config, failed)
    return result
  })
}

interface FailedRefresh {
  readonly why: string
  /** Whether the stale entry was dropped, because the new response may not be shared. */
  readonly dropped: boolean
  readonly error?: unknown
}

function failureOf(
  result: FillResult,
  head: CapturedHead | undefined,
  end: OriginEnd | undefined,
): FailedRefresh | undefined {
  const dropped = result.type === 'pass' && result.remember
  if (end?.type === 'failed') return { why: messageOf(end.error), error: end.error, dropped }
  switch (result.type) {
    case 'failure':
      return { why: result.failure.message, error: result.error, dropped }
    case 'abandoned':
      return { why: 'the body ended before it was complete', dropped }
    case 'pass': {
      const isGone = head?.status === 404 || head?.status === 410
      if (isGone || result.reason === STORED_BY_INNER.reason) return undefined
      const isStatus = result.reason === 'status' && head !== undefined
      const why = isStatus
        ? `the status was ${head.status}`
        : `the response cannot be stored (${result.reason})`
      return { why, dropped }
    }
    default:
      return undefined
  }
}

function warn<Native>(
  { request }: Exchange<Native>,
  config: CacheConfig<Native>,
  { why, dropped, error }: FailedRefresh,
): void {
  // The warning does not contain the query, which may have secrets.
  const [path = ''] = request.target.split('?', 1)
  const paths = warned.get(config) ?? new Set()
  warned.set(config, paths)
  if (paths.has(path) || paths.size >= MOST_PATHS_PER_CACHE) return
  paths.add(detachedText(path))
  const outcome = dropped
    ? 'The stored response is no longer used.'
    : 'The stale response is served until its stale window ends.'
  const names = { type: 'StampedeRefreshWarning', code: 'STAMPEDE_REFRESH' }
  const detail = error instanceof Error && error.stack ? { detail: error.stack } : {}
  const text = `GET ${path}: a background refresh failed: ${why}. ${outcome}`
  process.emitWarning(text, { ...names, ...detail })
}
