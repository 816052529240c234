// In the server process: every run of the handler is told to the test, which may hold it at a gate.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** From the server to the test. */
export type Told =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'run'; readonly scene: string; readonly id: string }

/** From the test to the server: runs of this scene that wait at the gate go on. */
export interface Go {
  readonly type: 'go'
  readonly scene: string
}

export interface Run {
  /** New for every run, and part of its answer: two answers with one id are one run's. */
  readonly id: string
  readonly attempt: number
  readonly user: string
}

const gates = new Map<string, () => void>()

process.on('message', ({ scene }: Go) => gates.get(scene)?.())
// The test is gone, so is the reason to live.
process.on('disconnect', () => process.exit())

export function tell(told: Told): void {
  process.send?.(told)
}

/** What every handler does first, whatever it is guarded by. */
export async function beginRun(headers: IncomingHttpHeaders): Promise<Run> {
  const header = (name: string): string => String(headers[name] ?? '')
  const id = randomUUID()
  const scene = header('x-scene')
  const gate = header('x-gated') && new Promise<void>((open) => gates.set(scene, open))
  tell({ type: 'run', scene, id })
  await gate
  await sleep(Number(header('x-hold-ms')))
  return { id, attempt: Number(header('x-attempt') || 1), user: header('x-user') }
}
