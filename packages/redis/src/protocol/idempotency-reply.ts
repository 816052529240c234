// Parses the replies of lua/begin-record-1.lua and lua/inspect-record-1.lua. The server is not
// trusted, so each part is checked.

import { type BeginReply, type IdempotencyStore, unknownReply } from '@stampede/core/store'
import { bytes, duration } from './lookup-reply.ts'

type Inspection = NonNullable<Awaited<ReturnType<IdempotencyStore['inspect']>>>

export function readBegin(raw: unknown, key: string, token: string): BeginReply {
  if (!Array.isArray(raw)) throw unknownReply('redis', 'begin-record', 'the reply is not an array')
  switch (String(raw[0])) {
    case 'BEGUN':
      return {
        status: 'begun',
        grant: { key, token, fence: String(raw[2]) },
        attempt: readAttempt(raw[3]),
        isRecovery: String(raw[4]) !== '0',
        steps: readSteps(raw.slice(5)),
      }
    case 'MISMATCH':
      return { status: 'mismatch' }
    case 'BUSY':
      return { status: 'busy', forMs: duration(raw[2]) }
    case 'COMPLETED':
      return { status: 'completed', forMs: duration(raw[2]), frame: readFrame(raw[3]) }
    case 'UNCERTAIN':
      return { status: 'uncertain' }
    default:
      throw unknownReply('redis', 'begin-record', `unknown reply ${String(raw[0])}`)
  }
}

function readAttempt(value: unknown): number {
  const attempt = Number(value)
  if (Number.isSafeInteger(attempt) && attempt > 0) return attempt
  throw unknownReply('redis', 'begin-record', 'the reply has no attempt')
}

function readFrame(value: unknown): Buffer {
  const frame = bytes(value)
  if (frame !== undefined) return frame
  throw unknownReply('redis', 'begin-record', 'the reply has no frame')
}

function readSteps(flat: unknown[]): Map<string, Uint8Array> {
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
  if (!Array.isArray(raw))
    throw unknownReply('redis', 'inspect-record', 'the reply is not an array')
  const text = String(raw[0])
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
    attempt: Number(raw[1]),
    fence: String(raw[2]),
    leaseForMs: duration(raw[3]),
    ageMs: duration(raw[4]),
    keepForMs: duration(raw[5]),
    frame: state === 'completed' ? bytes(raw[6]) : undefined,
    steps: raw.slice(7).map(String),
  }
}
