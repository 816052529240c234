// Marks requests that a cache has passed on to the app. An inner cache asks this outer cache first:
// otherwise it would wait for the fill that it is part of.

import type { IncomingMessage } from 'node:http'
import type { InnerCache, OnInner } from '@stampede/core/adapter'

/**
 * A property of the request. A WeakMap element per request costs a miss 25 µs of garbage
 * collection.
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
 * Whether the cache described by `inner` must pass the request on. Throws the errors of its
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
