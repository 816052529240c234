// Which requests are being answered by the origin on behalf of a cache. A second cache further inside
// lets them pass: it would wait for the very fill it is part of.

import type { IncomingMessage } from 'node:http'

const inside = new WeakSet<IncomingMessage>()

export function enterOrigin(req: IncomingMessage): void {
  inside.add(req)
}

export function isInsideOrigin(req: IncomingMessage): boolean {
  return inside.has(req)
}
