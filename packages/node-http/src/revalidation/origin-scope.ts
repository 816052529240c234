// Marks requests that a cache has passed to the app. An inner cache finds the outer cache by this
// mark. Without it, the inner cache would wait for the fill that it is itself a part of.

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

export function enterOrigin(req: IncomingMessage & Taken, onInner: OnInner): void {
  req[TAKEN] = onInner
}

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
