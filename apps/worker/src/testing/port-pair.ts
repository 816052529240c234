// Two ports that are each other's other end, in one process: messages are copied and arrive later, as between two.

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
