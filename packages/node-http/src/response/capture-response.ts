// Copies a response while it is written, by wrapping the methods of its ServerResponse. Core gets
// the head in writeHead, which Node also calls for an implicit head. At that moment the inner
// layers (nearer to the handler) have set all their fields, and the outer layers have not begun. A
// response is complete if the wrapped end() ran and the number of bytes agrees with Content-Length.
// The `finish` event proves neither, because it also fires after aborts.

import type { ServerResponse } from 'node:http'
import type { Natives, OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { watchLeft } from '../request/client-gone.ts'
import type { CaptureObserver } from './hold-end.ts'
import { type ResponseCapture, ResponseLayer } from './response-layer.ts'

/**
 * Captures a response. Call this before the app runs. Resolves once the outcome is known, which may
 * be before the end of the response.
 */
export function captureResponse(
  res: ServerResponse,
  observer: CaptureObserver,
): Promise<OriginEnd> {
  return openCapture(res, observer).ended
}

/**
 * For a framework, such as Koa, that writes the response after the middlewares. If the app itself
 * writes to `res`, the response goes to its client unchanged. Only a 304 goes to core first,
 * because the cache may have set the conditions to which it replies.
 */
export function guardNotModified(
  res: ServerResponse,
  observer: OriginObserver,
  natives: Natives,
): ResponseCapture {
  return openCapture(res, {
    maxBodyBytes: observer.maxBodyBytes,
    onHead: (head, whole) =>
      head.status === 304
        ? observer.onHead(head, whole, natives)
        : { action: 'send', capture: false, add: [], remove: [] },
  })
}

/** Opens a capture. `natives` are the framework's own objects for the response, which core gets. */
export function openCapture(
  res: ServerResponse,
  observer: CaptureObserver,
  natives?: Natives,
): ResponseCapture {
  if (!res.headersSent) return new ResponseLayer(res, observer, natives)
  const left = watchLeft(res)
  const ended = Promise.resolve<OriginEnd>({ type: 'not-captured', reason: 'detached' })
  return { ended, isLeft: left, stop() {} }
}
