// Two connected ports in one process. Messages are copied and arrive later, as between two
// processes.

import { setImmediate } from 'node:timers'
import type { Port } from '../calls.ts'

export function portPair(): [Port, Port] {
  const ends: Array<Array<(message: unknown) => void>> = [[], []]
  const port = (mine: number): Port => ({
    send(message) {
      const copy: unknown = structuredClone(message)
      setImmediate(() => ends[1 - mine]?.forEach((listener) => void listener(copy)))
    },
    onMessage: (listener) => void ends[mine]?.push(listener),
  })
  return [port(0), port(1)]
}
