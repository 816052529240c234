// Teeing what is written on one ServerResponse, by wrapping its methods. The head is judged in writeHead,
// which implicit heads also go through: there the layer we wrap has said all it has to say, and the
// layers outside us have not begun. Complete means that our own end() ran and the bytes agree with
// Content-Length; `finish` means neither (it also fires for short bodies and after aborts).

import type { ServerResponse } from 'node:http'
import type { Natives, OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { watchLeft } from '../request/client-gone.ts'
import type { CaptureObserver } from './hold-end.ts'
import { type ResponseCapture, ResponseLayer } from './response-layer.ts'

/** Call before the app runs. Resolves as soon as the outcome is known, be it before the end of the body. */
export function captureResponse(
  res: ServerResponse,
  observer: CaptureObserver,
): Promise<OriginEnd> {
  return openCapture(res, observer).ended
}

/**
 * For a framework that writes the response itself: what the app writes around it is its client's, but for a 304 to conditions that
 * are not.
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

/** `natives`: whose response it is, for core. */
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
