// What one connection is sent in one turn of the event loop. It leaves in one write, since a system call for each is most of
// what a command costs, and the server is asked for its time once for all of it.

import type { Writes } from './connection.ts'

export interface Turn {
  /** Asked for by the first who needs it. */
  time: ServerTime | undefined
}

/** When a turn began, in milliseconds of the server's clock: known before the replies to what was sent after it. */
export interface ServerTime {
  /** NaN until then, and for what is no time. */
  serverNow: number
}

const turns = new WeakMap<Writes, Turn>()

/** Begins with the first who sends something, and ends after the promises that settle meanwhile and send what follows. */
export function turnOf(stream: Writes): Turn {
  const present = turns.get(stream)
  if (present !== undefined) return present
  const turn = { time: undefined }
  turns.set(stream, turn)
  stream.cork()
  process.nextTick(() => {
    turns.delete(stream)
    stream.uncork()
  })
  return turn
}
