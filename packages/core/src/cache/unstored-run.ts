// The results of runs whose response is not stored: not shareable, or a failure.

import type { FillResult } from '../flight/resolution.ts'
import type { OriginEnd } from '../ports/exchange.ts'
import type { NotStorable } from './storable.ts'

export function refused(verdict: NotStorable, status: number): FillResult {
  const { reason } = verdict
  if (!verdict.failure) return { type: 'pass', reason, remember: concernsResource(reason, status) }
  const failure = { status, message: `the status was ${status}` }
  return { type: 'failure', failure, error: undefined }
}

/**
 * Reasons that may hold for one request only, so the key is not marked hit-for-miss: the `tags`
 * callback failed, an inner cache took over, one spelling of the URL was redirected.
 */
const OF_ONE_REQUEST: ReadonlySet<string> = new Set(['tags', 'inner-cache', 'self-redirect'])

function concernsResource(reason: string, status: number): boolean {
  if (OF_ONE_REQUEST.has(reason)) return false
  return reason !== 'status' || status < 400 || status === 404 || status === 410
}

export function failedRun({ status, error }: Extract<OriginEnd, { type: 'failed' }>): FillResult {
  if (status < 500) {
    return { type: 'pass', reason: 'status', remember: concernsResource('status', status) }
  }
  const message = `the handler failed with status ${status}`
  return { type: 'failure', failure: { status: Math.min(status, 599), message }, error }
}
