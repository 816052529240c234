// Runs in the server process: it reports every handler run to the test, which can hold it at a
// gate.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** A message from the server to the test. */
export type ServerMessage =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'run'; readonly scene: string; readonly id: string }

/** A message from the test to the server: runs of this scene that wait at the gate go on. */
export interface Go {
  readonly type: 'go'
  readonly scene: string
}

export interface Run {
  /** New for every run and part of its response, so equal ids mean the same run. */
  readonly id: string
  readonly attempt: number
  readonly user: string
}

const gates = new Map<string, () => void>()

process.on('message', ({ scene }: Go) => gates.get(scene)?.())
// The server ends with the test.
process.on('disconnect', () => process.exit())

export function sendToTest(message: ServerMessage): void {
  process.send?.(message)
}

/** Every handler calls this first, with each library. */
export async function beginRun(headers: IncomingHttpHeaders): Promise<Run> {
  const header = (name: string): string => String(headers[name] ?? '')
  const id = randomUUID()
  const scene = header('x-scene')
  const gate = header('x-gated') && new Promise<void>((open) => gates.set(scene, open))
  sendToTest({ type: 'run', scene, id })
  await gate
  await sleep(Number(header('x-hold-ms')))
  return { id, attempt: Number(header('x-attempt') || 1), user: header('x-user') }
}
