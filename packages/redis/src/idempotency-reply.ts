// The replies of lua/begin-record-1.lua and lua/inspect-record-1.lua, read. What comes from the server is checked,
// not trusted.

import type { BeginReply, Inspection } from '@stampede/core'

export function readBegin(raw: unknown[], key: string, token: string): BeginReply {
  switch (String(raw[0])) {
    case 'BEGUN':
      return {
        status: 'begun',
        grant: { key, token, fence: String(raw[2]) },
        attempt: Number(raw[3]),
        isRecovery: String(raw[4]) !== '0',
        steps: readSteps(raw.slice(5)),
      }
    case 'MISMATCH':
      return { status: 'mismatch' }
    case 'BUSY':
      return { status: 'busy', forMs: duration(raw[2]) }
    case 'COMPLETED':
      return { status: 'completed', forMs: duration(raw[2]), frame: raw[3] as Buffer }
    case 'UNCERTAIN':
      return { status: 'uncertain' }
    default:
      throw new TypeError(`begin-record: unknown reply ${String(raw[0])}`)
  }
}

function readSteps(flat: unknown[]): Map<string, Uint8Array> {
  const steps = new Map<string, Uint8Array>()
  for (let i = 0; i + 1 < flat.length; i += 2) steps.set(String(flat[i]), flat[i + 1] as Buffer)
  return steps
}

const STATES = ['running', 'lapsed', 'completed', 'released', 'uncertain'] as const

/** Undefined: there is no record. Throws for one that this version cannot read. */
export function readInspection(raw: unknown): Inspection | undefined {
  if (!Array.isArray(raw)) throw new TypeError('inspect-record: the reply is not an array')
  const text = String(raw[0])
  if (text === 'ABSENT') return undefined
  const state = STATES.find((each) => each === text)
  if (state === undefined) throw new TypeError('the record is of a layout unknown to this version')
  return {
    state,
    attempt: Number(raw[1]),
    fence: String(raw[2]),
    leaseForMs: duration(raw[3]),
    ageMs: duration(raw[4]),
    keepForMs: duration(raw[5]),
    frame: state === 'completed' ? (raw[6] as Buffer) : undefined,
    steps: raw.slice(7).map(String),
  }
}

/** No duration of ours is longer; what is was not written by us. */
const LONGEST_MS = 400 * 24 * 3600 * 1000

function duration(value: unknown): number {
  const ms = Number(value)
  return Number.isFinite(ms) ? Math.min(LONGEST_MS, Math.max(0, ms)) : 0
}
