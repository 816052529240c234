// Parses the replies of lua/lookup-or-lease-2.lua. The server is not trusted, so each part is
// checked.

import type { StampedeStore } from '@stampede/core'
import { type Grant, storeUnavailable } from '@stampede/core/store'

export type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>
export type LookupRequest = Parameters<StampedeStore['lookup']>[1]

export type Failure = NonNullable<Parameters<StampedeStore['fail']>[1]>
type StoredFrame = Extract<LookupReply, { status: 'fresh' }>['stored']

export interface ReadLookup {
  readonly reply: LookupReply
  readonly serverNow: number
  /** With `busy`: fence of the fill that the caller waits for. */
  readonly busyFence: string | undefined
}

export function readLookup(raw: unknown, key: string, { token }: LookupRequest): ReadLookup {
  const [text, frame, failure] = Array.isArray(raw) ? raw : [raw]
  const [status = '', now, granted, forMs, fence = '', ageMs, freshForMs, ...windows] =
    String(text).split(' ')
  const hasEntry = Number(fence) > 0 && ageMs !== undefined
  // A fence is below 2^53. As a new string, it does not keep the whole reply in memory.
  const stored = hasEntry
    ? storedFrame(String(Number(fence)), bytes(frame), ageMs, freshForMs, windows)
    : undefined
  const grant = Number(granted) > 0 ? { key, token, fence: String(Number(granted)) } : undefined
  const isFirst = status === 'LEASED' && grant !== undefined && stored === undefined
  return {
    reply: isFirst
      ? { status: 'leased', grant }
      : toReply(status, stored, grant, duration(forMs), failure),
    serverNow: Number(now),
    busyFence: status === 'BUSY' && Number(fence) > 0 ? fence : undefined,
  }
}

function toReply(
  status: string,
  stored: StoredFrame | undefined,
  grant: Grant | undefined,
  forMs: number,
  failure: unknown,
): LookupReply {
  if (status === 'BUSY') return { status: 'busy', busyForMs: forMs }
  if (status === 'FRESH' && stored !== undefined) return { status: 'fresh', stored }
  if (status === 'PASS')
    return { status: 'pass', forMs, ...(grant && { grant }), ...(stored && { stored }) }
  if (status === 'STALE' && stored !== undefined) {
    if (grant === undefined) return { status: 'stale', stored, busyForMs: forMs }
    return { status: 'stale', stored, grant, busyForMs: 0 }
  }
  if (status === 'LEASED' && grant && stored) return { status: 'leased', grant, stored }
  if (status === 'FAILED') {
    const shared = { status: 'failed', forMs, failure: readFailure(failure) } as const
    return stored ? { ...shared, stored } : shared
  }
  throw storeUnavailable('redis', 'lookup-or-lease', `unknown reply ${status}`)
}

/**
 * A stored frame with its times, of which a malformed one is 0. `windows`: the durations of
 * stale-while-revalidate, stale-if-error and `keep`.
 */
export function storedFrame(
  fence: string,
  frame: Uint8Array | undefined,
  ageMs: unknown,
  freshForMs: unknown,
  [staleWhileRevalidateMs, staleIfErrorMs, keepMs]: readonly unknown[],
): StoredFrame {
  return {
    fence,
    frame,
    ageMs: duration(ageMs),
    freshForMs: signedDuration(freshForMs),
    staleWhileRevalidateMs: duration(staleWhileRevalidateMs),
    staleIfErrorMs: duration(staleIfErrorMs),
    keepMs: duration(keepMs),
  }
}

/** The durations of an entry as lua/commit-2.lua parses them. */
export function durationsOf(lifetimes: Parameters<StampedeStore['commit']>[2]): string {
  const {
    physicalMs,
    freshMs,
    staleWhileRevalidateMs: swr,
    staleIfErrorMs: sie,
    keepMs,
  } = lifetimes
  return `${physicalMs} ${freshMs.toFixed(0)} ${swr.toFixed(0)} ${sie.toFixed(0)} ${keepMs.toFixed(0)}`
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

// Parses single values of a script's reply. Malformed values become harmless ones: 0 or undefined.

/** No script writes a longer duration. */
const MAX_MS = 400 * 24 * 3600 * 1000

/**
 * A number of milliseconds, which may be negative. If it is malformed, 0, so that the time counts
 * as over.
 */
function signedDuration(value: unknown): number {
  const ms = Number(value)
  return Number.isFinite(ms) ? Math.min(MAX_MS, Math.max(-MAX_MS, ms)) : 0
}

export function duration(value: unknown): number {
  return Math.max(0, signedDuration(value))
}

/** The bytes of a string reply. Undefined if the value is missing or of another type. */
export function bytes(value: unknown): Buffer | undefined {
  return Buffer.isBuffer(value) ? value : undefined
}
