// Parses the replies of lua/begin-record-1.lua and lua/inspect-record-1.lua. The server is not
// trusted, so each part is checked.

import { type IdempotencyStore, unknownReply } from '@stampede/core/store'
import { bytes, duration } from './lookup-reply.ts'

type BeginReply = Awaited<ReturnType<IdempotencyStore['begin']>>

export type Inspection = NonNullable<Awaited<ReturnType<IdempotencyStore['inspect']>>>

export function readBegin(raw: unknown, key: string, token: string): BeginReply {
  const parts: readonly unknown[] = Array.isArray(raw) ? raw : [raw]
  switch (String(parts[0])) {
    case 'BEGUN': {
      const attempt = Number(parts[3])
      if (!Number.isSafeInteger(attempt) || attempt < 1)
        throw unknownReply('redis', 'begin-record', 'the reply has no attempt')
      return {
        status: 'begun',
        grant: { key, token, fence: String(parts[2]) },
        attempt,
        isRecovery: String(parts[4]) !== '0',
        steps: parts.length > 5 ? readSteps(parts.slice(5)) : NO_STEPS,
      }
    }
    case 'MISMATCH':
      return { status: 'mismatch' }
    case 'BUSY':
      return { status: 'busy', forMs: duration(parts[2]) }
    case 'COMPLETED':
      return { status: 'completed', forMs: duration(parts[2]), frame: readFrame(parts[3]) }
    case 'UNCERTAIN':
      return { status: 'uncertain' }
    default:
      throw unknownReply('redis', 'begin-record', `unknown reply ${String(parts[0])}`)
  }
}

function readFrame(value: unknown): Buffer {
  const frame = bytes(value)
  if (frame !== undefined) return frame
  throw unknownReply('redis', 'begin-record', 'the reply has no frame')
}

const NO_STEPS: ReadonlyMap<string, Uint8Array> = new Map()

function readSteps(flat: readonly unknown[]): Map<string, Uint8Array> {
  const steps = new Map<string, Uint8Array>()
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const value = bytes(flat[i + 1])
    // A copy, because `value` is a view of the whole socket buffer, and an attempt may run for
    // minutes.
    if (value !== undefined) steps.set(String(flat[i]), Uint8Array.from(value))
  }
  return steps
}

const STATES = ['running', 'lapsed', 'completed', 'released', 'uncertain'] as const

/**
 * Parses the state of a record. Undefined if there is no record. Throws if this version cannot read
 * the record.
 */
export function readInspection(raw: unknown): Inspection | undefined {
  const parts: readonly unknown[] = Array.isArray(raw) ? raw : [raw]
  const text = String(parts[0])
  if (text === 'ABSENT') return undefined
  const state = STATES.find((each) => each === text)
  if (state === undefined)
    throw unknownReply(
      'redis',
      'inspect-record',
      'the record is malformed or has the layout of another version',
    )
  return {
    state,
    attempt: Number(parts[1]),
    fence: String(parts[2]),
    leaseForMs: duration(parts[3]),
    ageMs: duration(parts[4]),
    keepForMs: duration(parts[5]),
    frame: state === 'completed' ? bytes(parts[6]) : undefined,
    steps: parts.slice(7).map(String),
  }
}
