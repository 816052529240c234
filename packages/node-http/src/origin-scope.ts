// Which requests a cache has taken on: it runs the app for them, or has looked for them in vain. A second cache further inside asks it
// first: it would wait for the very fill it is part of.

import type { IncomingMessage } from 'node:http'
import type { InnerCache } from '@stampede/core'

/** True: the inner one is to let the request pass. */
type OnInner = (inner: InnerCache) => boolean

const taken = new WeakMap<IncomingMessage, OnInner>()

export function enterOrigin(req: IncomingMessage, onInner: OnInner): void {
  taken.set(req, onInner)
}

/** What the cache further out, if there is one, is to be asked. */
export function outerOf(req: IncomingMessage): OnInner | undefined {
  return taken.get(req)
}
