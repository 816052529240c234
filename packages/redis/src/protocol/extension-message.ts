// What lua/extend-2.lua tells the other processes on the channel of the log: an entry lives on. A hint, checked like all
// that comes from the server.

import type { Extension } from '@stampede/core'
import type { ServerClock } from '../connection/server-clock.ts'
import { readKeyed } from './keyed-message.ts'

/** Larger ones are not told: whoever has a copy asks again. */
export const LONGEST_PATCH: number = 8 * 1024

const MARK = 'x'.charCodeAt(0)
const HEAD = /^x (\S+) (\d{1,20}) (\d{1,20})((?: \d{1,16}){7})$/

/** Purges begin with a number. */
export function isExtension(message: Buffer): boolean {
  return message[0] === MARK
}

/** Undefined for one of this process's own, one that is over already, and whatever cannot be read. */
export function readExtension(
  message: Buffer,
  processId: string,
  clockOf: (key: string) => Pick<ServerClock, 'agoAtMost'>,
): Extension | undefined {
  const read = readKeyed(message, HEAD)
  const [teller, fromFence = '', toFence = ''] = read?.words ?? []
  if (read === undefined || teller === processId) return undefined
  const { key } = read
  const [at = 0, fresh = 0, swr = 0, sie = 0, keep = 0, physical = 0] = read.numbers
  // It may have been on its way for as long as this; what is left is at least the rest.
  const agoMs = clockOf(key).agoAtMost(at)
  if (agoMs === undefined || agoMs >= fresh) return undefined
  const elapsedMs = Math.max(0, agoMs)
  return {
    key,
    fromFence,
    toFence,
    patch: read.rest,
    lifetimes: {
      freshMs: fresh - elapsedMs,
      staleWhileRevalidateMs: swr,
      staleIfErrorMs: sie,
      keepMs: keep,
      physicalMs: Math.max(0, physical - elapsedMs),
    },
  }
}
