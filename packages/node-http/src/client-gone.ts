// When may a response that was closed before its end() be given up?
//
// `close` says that nobody reads any more, not that the handler has stopped. A handler that was waiting
// for its database will still answer, and that answer is worth keeping; a source piped into the response
// was unpiped by `close` and will never end it. So:
//   - closed by the app (res.destroy, or its socket destroyed from this side), or while a source was
//     piped into it: given up at once;
//   - the client left before anything was written: the handler has 30 s to answer;
//   - the client left in the middle of the body: given up after 2 s in which nothing was written.

import type { ServerResponse } from 'node:http'

export const ANSWER_WITHIN_MS = 30_000
export const WRITE_WITHIN_MS = 2_000

export interface Departure {
  /** The response was closed before its end, and the handler is still given time. */
  readonly gone: boolean
  /** The app called res.destroy(). */
  destroyedByApp(): void
  /** Something was written; after a departure, the time to the next write starts. */
  wrote(): void
  stop(): void
}

/** `closed` is called on a close from which the handler may go on, `givenUp` when it will not. */
export function watchDeparture(
  res: ServerResponse,
  on: { closed(): void; givenUp(): void },
): Departure {
  let gone = false
  let byApp = false
  let piped = false
  let timer: NodeJS.Timeout | undefined

  const wait = (ms: number): void => {
    clearTimeout(timer)
    timer = setTimeout(on.givenUp, ms).unref()
  }
  const onPipe = (): void => {
    piped ||= !gone
  }
  const onClose = (): void => {
    gone = true
    if (byApp || piped || !leftByClient(res)) {
      on.givenUp()
    } else {
      wait(res.headersSent ? WRITE_WITHIN_MS : ANSWER_WITHIN_MS)
      on.closed()
    }
  }
  res.on('pipe', onPipe)
  res.once('close', onClose)

  return {
    get gone() {
      return gone
    },
    destroyedByApp() {
      byApp = true
    },
    wrote() {
      if (gone) wait(WRITE_WITHIN_MS)
    },
    stop() {
      gone = false
      clearTimeout(timer)
      res.off('pipe', onPipe)
      res.off('close', onClose)
    },
  }
}

/** A socket the other side closed has seen its end, or an error; one destroyed from here has not. */
function leftByClient(res: ServerResponse): boolean {
  const { socket } = res
  return socket !== null && (socket.readableEnded || socket.errored !== null)
}
