// Watches a response to see how the handler's run ended, and reports it to core once.

import type { ServerResponse } from 'node:http'
import type { AttemptEnd, AttemptObserver, CapturedHead, OriginEnd } from '@stampede/core/adapter'
import { openCapture } from './capture-response.ts'
import { fieldsOf } from './header-fields.ts'
import { OuterFields, storedHead } from './outer-fields.ts'

/** Watches one run of a handler under an idempotency key, and reports its end to core. */
export interface AttemptWatch {
  /** Resolves when core has handled the report. */
  readonly ended: Promise<void>
  /** Reports the end to core, unless an end was reported before. */
  report(end: AttemptEnd): Promise<void>
  /** Call this when the app has thrown. Its framework may still send an error response. */
  threw(error: unknown): void
  /** Stops watching, because other code reports the end. */
  stop(): void
}

/**
 * Starts to watch a response. Call this before the app runs. An end that cannot be delayed is
 * reported at once.
 */
export function watchAttempt(res: ServerResponse, observer: AttemptObserver): AttemptWatch {
  const outer = new OuterFields(res)
  let seen: CapturedHead | undefined
  let thrown: { readonly error: unknown } | undefined
  let reported: { readonly until: void | Promise<void> } | undefined
  let stopped = false
  const reportOnce = (end: AttemptEnd): void | Promise<void> => {
    reported ??= { until: observer.onEnd(end) }
    return reported.until
  }
  const endOf = (end: OriginEnd): AttemptEnd => {
    if (end.type === 'complete') return { type: 'answered', head: end.head, body: end.body }
    const head = seen ?? headOf(res)
    if (head !== undefined) {
      return { type: 'not-retained', head: storedHead(head.status, head.headers, outer) }
    }
    return thrown === undefined ? { type: 'unanswered' } : { type: 'failed', error: thrown.error }
  }
  const capture = openCapture(res, {
    maxBodyBytes: observer.maxBodyBytes,
    graceMs: observer.graceMs,
    onHead(head) {
      seen = head
      return { action: 'send', capture: true, add: [], remove: [] }
    },
    beforeEnd: (end) => reportOnce(endOf(end)),
  })
  return {
    ended: capture.ended.then((end) => (stopped ? undefined : reportOnce(endOf(end)))),
    report: async (end) => reportOnce(end),
    threw(error) {
      thrown = { error }
    },
    stop() {
      stopped = true
      capture.stop()
    },
  }
}

/** The head of a response that was sent without a call of our wrapped methods. */
function headOf(res: ServerResponse): CapturedHead | undefined {
  if (!res.headersSent) return undefined
  return { status: res.statusCode, headers: fieldsOf(res.getHeaders()) }
}
