// Responses of the order routes, the same for every framework: one path per way to respond.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { emitEvent } from '../lib/child.ts'

export const WAYS = [
  ...(['json', 'other', 'empty', 'no-content', 'binary', 'stream', 'redirect', 'file'] as const),
  ...(['throws', 'unavailable', 'limited', 'cookie', 'large'] as const),
]

export type Way = (typeof WAYS)[number]

export const pathOf = (way: Way): string => `/orders/${way}`
export const locationOf = (id: string): string => `/orders/${id}`
export const order = (id: string): object => ({ id, note: 'naïve ✓', price: 9.5, lines: [] })

/** All byte values, so that no text encoding can carry them. */
export const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

/** Chunks that cut a character in two. */
export function chunksOf(id: string): Buffer[] {
  const bytes = Buffer.from(`order ${id}: ✓ done\n`)
  const cut = bytes.indexOf(0xe2) + 1
  return [bytes.subarray(0, cut), bytes.subarray(cut)]
}

/** Any existing file works. */
export const FILE: string = fileURLToPath(import.meta.url)

/** Longer than any sensible limit for stored responses. */
export const LARGE: string = 'x'.repeat(3 * 1024 * 1024)

/** The body of the first attempt. A retry succeeds if it runs. */
export const FAILURE = { error: 'try again' }

/** A run of a handler, as the case sees it. */
export interface RunSeen {
  readonly scene: string
  readonly id: string
}

export interface Run {
  /** New for every run and part of its response, so equal ids mean the same run. */
  readonly id: string
  readonly attempt: number
}

const gates = new Map<string, () => void>()

/** Lets the runs of this scene go on that wait at the gate. */
export const openGate = (scene: string): void => gates.get(scene)?.()

/** Every handler calls this first, with each library. The case sees the run, and can hold it. */
export async function beginRun(headers: IncomingHttpHeaders): Promise<Run> {
  const header = (name: string): string => String(headers[name] ?? '')
  const run: RunSeen = { id: randomUUID(), scene: header('x-scene') }
  const gate = header('x-gated') && new Promise<void>((open) => gates.set(run.scene, open))
  emitEvent(run)
  await gate
  await sleep(Number(header('x-hold-ms')))
  return { id: run.id, attempt: Number(header('x-attempt') || 1) }
}
