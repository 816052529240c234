// A source whose own client left, read on for those who are fed from the same answer. `pipe` lets go of it when the
// response is closed; what it was piped into stands in for the client, so that layers in between go on as before.

import type { ServerResponse } from 'node:http'
import { finished, type Readable } from 'node:stream'
import { hasLeft, type SharedSource } from '../request/client-gone.ts'
import type { LiveFeed } from './live-feed.ts'

/** What is done about a source of `res` while others read; `failed` is called when it breaks after its client left. */
export function readersOf(live: LiveFeed, res: ServerResponse, failed: () => void): SharedSource {
  return {
    watched: () => live.watched,
    piped: (source) => {
      if (live.active) shield(source, res, live)
    },
    orphaned: (source) => {
      if (!live.watched || source.destroyed || source.readableEnded) return false
      // After all who listen for the same `close` have let go of it.
      const whole = (): void => void res.end()
      setImmediate(() => readOn(source, live, (chunk) => res.write(chunk), whole, failed))
      return true
    },
  }
}

export function readOn(
  source: Readable,
  live: LiveFeed,
  take: (chunk: unknown) => void,
  whole: () => void,
  failed: () => void,
): void {
  finished(source, { writable: false }, (error) => (error ? failed() : whole()))
  source.on('data', (chunk: unknown) => {
    if (live.active) take(chunk)
    else source.destroy()
  })
  // Who let go of it has paused it.
  source.resume()
}

/** Frameworks destroy a source when its client left: not while others read it. */
export function shield(source: Readable, res: ServerResponse, live: LiveFeed): void {
  const { destroy } = source
  const own: Readable['destroy'] = (error) => {
    const isLeft = (error === undefined || error === null) && hasLeft(res)
    return isLeft && !source.readableEnded && live.watched
      ? source
      : Reflect.apply(destroy, source, [error])
  }
  Object.assign(source, { destroy: own })
}
