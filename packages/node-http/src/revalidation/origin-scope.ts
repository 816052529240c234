// Which requests a cache has taken on: it runs the app for them, or has looked for them in vain. A second cache further inside asks it
// first: it would wait for the very fill it is part of.

import type { IncomingMessage } from 'node:http'
import type { InnerCache, OnInner } from '@stampede/core/adapter'

const taken = new WeakMap<IncomingMessage, OnInner>()

export function enterOrigin(req: IncomingMessage, onInner: OnInner): void {
  taken.set(req, onInner)
}

export function isInsideOrigin(req: IncomingMessage): boolean {
  return taken.has(req)
}

/** Whether the cache that `inner` tells of is to let the request pass. Throws what its callbacks throw. */
export function isTakenOn(req: IncomingMessage, inner: () => InnerCache | undefined): boolean {
  const onInner = taken.get(req)
  if (onInner === undefined) return false
  const met = inner()
  return met === undefined || onInner(met) === undefined
}
