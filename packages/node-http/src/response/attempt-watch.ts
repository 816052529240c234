// How a run of the handler ended, as seen on its response, told to core once.

import type { ServerResponse } from 'node:http'
import type { AttemptEnd, AttemptObserver, CapturedHead, OriginEnd } from '@stampede/core/adapter'
import { openCapture } from './capture-response.ts'
import { fieldsOf, storedHead } from './header-fields.ts'

export interface AttemptWatch {
  /** Resolves when core was told, and has done what it does then. */
  readonly ended: Promise<void>
  /** Tells core, unless it was told. */
  report(end: AttemptEnd): Promise<void>
  /** The app threw; somebody may still answer for it. */
  threw(error: unknown): void
  /** Leaves the response alone from now on; somebody else reports. */
  stop(): void
}

/** Call before the app runs. Without an end that can be held, core is told as soon as there is nothing to wait for. */
export function watchAttempt(res: ServerResponse, observer: AttemptObserver): AttemptWatch {
  const outer = fieldsOf(res.getHeaders())
  let seen: CapturedHead | undefined
  let thrown: { readonly error: unknown } | undefined
  let reported: { readonly until: void | Promise<void> } | undefined
  let stopped = false
  const tell = (end: AttemptEnd): void | Promise<void> => {
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
    patienceMs: observer.patienceMs,
    onHead(head) {
      seen = head
      return { action: 'send', capture: true, add: [], remove: [] }
    },
    beforeEnd: (end) => tell(endOf(end)),
  })
  return {
    ended: capture.ended.then((end) => (stopped ? undefined : tell(endOf(end)))),
    report: async (end) => tell(end),
    threw(error) {
      thrown = { error }
    },
    stop() {
      stopped = true
      capture.stop()
    },
  }
}

/** Of an answer that was written around us. */
function headOf(res: ServerResponse): CapturedHead | undefined {
  if (!res.headersSent) return undefined
  return { status: res.statusCode, headers: fieldsOf(res.getHeaders()) }
}
