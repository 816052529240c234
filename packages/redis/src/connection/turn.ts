// The commands of one connection in one turn of the event loop. They are sent in one write, because
// a system call for each command would be most of the cost of the command. They share one TIME
// command.

import type { Corkable } from './connection.ts'

export interface Turn {
  /** Set by the first command of the turn that needs the server's time. */
  time: ServerTime | undefined
}

/**
 * The server's time in a turn. Redis replies in order, so the reply to TIME arrives before the
 * replies to the commands after it.
 */
export interface ServerTime {
  /** In milliseconds. NaN before the reply, and after an invalid one. */
  serverNow: number
}

const turns = new WeakMap<Corkable, Turn>()

/**
 * The current turn. It begins with its first command and ends at the next tick. Microtasks that run
 * before that tick may add commands.
 */
export function turnOf(stream: Corkable): Turn {
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
