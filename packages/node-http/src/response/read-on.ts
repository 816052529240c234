// Reads a source to its end for other clients after its own client left. `pipe` unpipes the source
// when the response is closed. This code then writes the chunks to the response, so that layers in
// between still get them.

import type { ServerResponse } from 'node:http'
import { finished, type Readable } from 'node:stream'
import { hasLeft, type SharedSource } from '../request/client-gone.ts'
import type { LiveFeed } from './live-feed.ts'

/**
 * Keeps the source of `res` readable for other clients. `failed` is called if the source fails
 * after its client left.
 */
export function readersOf(live: LiveFeed, res: ServerResponse, failed: () => void): SharedSource {
  return {
    watched: () => live.watched,
    piped: (source) => {
      if (live.active) shield(source, res, live)
    },
    orphaned: (source) => {
      if (!live.watched || source.destroyed || source.readableEnded) return false
      // Wait one turn, until all other listeners of this `close` have run.
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
  // `unpipe` has paused the source.
  source.resume()
}

/** Keeps frameworks from destroying a source whose client left while other clients read it. */
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
