// Parses the replies of lua/lookup-or-lease-2.lua. The server is not trusted, so each part is
// checked.

import {
  type Failure,
  type Grant,
  type LookupReply,
  type LookupRequest,
  type StoredFrame,
  unknownReply,
} from '@stampede/core/store'
import { bytes, duration, signedDuration } from './reply-parts.ts'

export type RawLookup = {
  readonly reply: LookupReply
  /** With `busy`: fence of the fill that the caller waits for. */
  readonly busyFence?: string
}

export function readLookup(raw: unknown[], key: string, request: LookupRequest): RawLookup {
  const [statusBytes, , grantBytes] = raw
  const forMs = duration(raw[3])
  const status = String(statusBytes)
  const fence = String(grantBytes ?? '')
  const grant: Grant | undefined = fence === '' ? undefined : { key, token: request.token, fence }
  if (status === 'BUSY') {
    const busyFence = String(raw[4] ?? '')
    return { reply: { status: 'busy', busyForMs: forMs }, busyFence }
  }
  const stored = readStored(raw)
  return { reply: toReply(status, stored, grant, forMs, raw[5]) }
}

function toReply(
  status: string,
  stored: StoredFrame | undefined,
  grant: Grant | undefined,
  forMs: number,
  failure: unknown,
): LookupReply {
  if (status === 'FRESH' && stored !== undefined) return { status: 'fresh', stored }
  if (status === 'PASS') return grant ? { status: 'pass', forMs, grant } : { status: 'pass', forMs }
  if (status === 'STALE' && stored !== undefined) {
    if (grant === undefined) return { status: 'stale', stored, busyForMs: forMs }
    return { status: 'stale', stored, grant, busyForMs: 0 }
  }
  if (status === 'LEASED' && grant !== undefined) {
    return stored ? { status: 'leased', grant, stored } : { status: 'leased', grant }
  }
  if (status === 'FAILED') {
    const shared = { status: 'failed', forMs, failure: readFailure(failure) } as const
    return stored ? { ...shared, stored } : shared
  }
  throw unknownReply('redis', 'lookup-or-lease', `unknown reply ${status}`)
}

function readStored(raw: unknown[]): StoredFrame | undefined {
  const fence = String(raw[4] ?? '')
  if (fence === '') return undefined
  return {
    fence,
    frame: bytes(raw[11]),
    ageMs: duration(raw[6]),
    freshForMs: signedDuration(raw[7]),
    staleWhileRevalidateMs: duration(raw[8]),
    staleIfErrorMs: duration(raw[9]),
    keepMs: duration(raw[10]),
  }
}

/** Digest of a request, with the characters that lua/lookup-or-lease-2.lua accepts. */
const REQUEST_DIGEST = /^[\w-]{1,64}$/

export function readFailure(text: unknown): Failure {
  try {
    const { status, message, like } = JSON.parse(String(text)) as Partial<Failure>
    if (Number.isInteger(status) && Number(status) >= 500 && Number(status) <= 599) {
      const failure = { status: Number(status), message: String(message ?? '') }
      return typeof like === 'string' && REQUEST_DIGEST.test(like) ? { ...failure, like } : failure
    }
  } catch {
    // The text is not JSON, so its message is lost. The fill failed anyway.
  }
  return { status: 500, message: 'the origin failed' }
}
