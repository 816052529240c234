// Marks requests that a cache has passed to the app. By this mark, a second cache nearer to the
// handler (the inner cache) finds the first one. Without the mark, the inner cache would wait for
// the fill that runs the inner cache itself.

import type { IncomingMessage } from 'node:http'
import type { InnerCache, OnInner } from '@stampede/core/adapter'

/**
 * A property of the request, because a WeakMap element per request would cost each miss 25 µs of
 * garbage collection.
 */
const TAKEN: unique symbol = Symbol('stampede.taken')

interface Taken {
  [TAKEN]?: OnInner
}

/** Marks a request as inside the handler of a cache. An inner cache then calls `onInner`. */
export function enterOrigin(req: IncomingMessage & Taken, onInner: OnInner): void {
  req[TAKEN] = onInner
}

/** Whether an outer cache has marked the request by `enterOrigin`. */
export function isInsideOrigin(req: IncomingMessage & Taken): boolean {
  return req[TAKEN] !== undefined
}

/**
 * Whether the inner cache, described by `inner`, must forward the request. Throws the errors of its
 * callbacks.
 */
export function isTakenOn(
  req: IncomingMessage & Taken,
  inner: () => InnerCache | undefined,
): boolean {
  const onInner = req[TAKEN]
  if (onInner === undefined) return false
  const met = inner()
  return met === undefined || onInner(met) === undefined
}
