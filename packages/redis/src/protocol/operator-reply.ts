// Parses the replies of lua/inspect-entry-2.lua and lua/inspect-lock-1.lua, and the reply to INFO.

import { type StoreOperator, unknownReply } from '@stampede/core/store'
import { bytes, duration, readFailure, signedDuration } from './lookup-reply.ts'

type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>

export type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>
type SharedFailure = NonNullable<RecordInfo['failure']>
export type StoreInfo = Awaited<ReturnType<StoreOperator['info']>>

/** Number of the parts that a record without an entry has. */
const PARTS_WITHOUT_ENTRY = 10

export function readRecordInfo(raw: unknown, key: string): RecordInfo | undefined {
  const parts = partsOf(raw, 'inspect-entry')
  if (String(parts[0]) === 'ABSENT') return undefined
  const [, fence, size, deletedInMs, leaseMs, waiters, passMs, retryMs, failure, ...rest] = parts
  const [variants, ageMs, freshForMs, swr, sie, keepMs, frame] = rest
  const found = parts.length > PARTS_WITHOUT_ENTRY ? bytes(frame) : undefined
  const [remainingMs, passForMs, forMs] = [duration(leaseMs), duration(passMs), duration(retryMs)]
  return {
    key,
    ...(found !== undefined && { frame: found }),
    ageMs: duration(ageMs),
    freshForMs: signedDuration(freshForMs),
    staleWhileRevalidateMs: duration(swr),
    staleIfErrorMs: duration(sie),
    keepMs: duration(keepMs),
    deletedInMs: duration(deletedInMs),
    fence: String(fence),
    ...(remainingMs > 0 && { lease: { remainingMs, waiters: count(waiters) } }),
    ...(passForMs > 0 && { passForMs }),
    ...(forMs > 0 && String(failure) !== '' && { failure: shared(failure, forMs) }),
    ...(Number(variants) === 1 && { variants: true }),
    bytes: count(size),
  }
}

export function readLockInfo(raw: unknown, key: string): LockInfo | undefined {
  const [status, token, fence, remainingMs, heldForMs, queue] = partsOf(raw, 'inspect-lock')
  if (String(status) === 'FREE') return undefined
  return {
    key,
    token: String(token),
    fence: String(fence),
    remainingMs: duration(remainingMs),
    ...(Number(heldForMs) >= 0 && { heldForMs: duration(heldForMs) }),
    queue: count(queue),
  }
}

function shared(text: unknown, forMs: number): SharedFailure {
  const { status, message } = readFailure(text)
  return { status, message, forMs }
}

/** 0 if the value is malformed. */
function count(value: unknown): number {
  return Math.max(0, Number(value) || 0)
}

function partsOf(raw: unknown, script: string): readonly unknown[] {
  if (Array.isArray(raw)) return raw
  throw unknownReply('redis', script, 'the reply is not an array')
}

/** The facts in a reply to INFO. An empty text gives none. */
export function readServerInfo(
  text: string,
  isCluster: boolean,
): Omit<StoreInfo, 'timeMs' | 'latencyMs' | 'denied'> {
  const lines = text.split(/\r?\n/)
  const field = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1)
  /** The fact `name`. Nothing if the field is missing. */
  const fact = <N extends string, T>(name: N, from: string, read: (text: string) => T) => {
    const value = field(from)
    return (value === undefined ? {} : { [name]: read(value) }) as { readonly [K in N]?: T }
  }
  const valkey = field('valkey_version')
  return {
    server: valkey === undefined ? 'redis' : 'valkey',
    version: valkey ?? field('redis_version') ?? 'unknown',
    mode: isCluster ? 'cluster' : 'standalone',
    ...fact('evictionPolicy', 'maxmemory_policy', String),
    ...fact('maxMemoryBytes', 'maxmemory', Number),
    ...fact('usedMemoryBytes', 'used_memory', Number),
    ...fact('role', 'role', (role) => (role === 'master' ? role : 'replica')),
    ...fact('connectedReplicas', 'connected_slaves', Number),
    ...fact('isAppendOnly', 'aof_enabled', (flag) => flag === '1'),
    ...fact('uptimeMs', 'uptime_in_seconds', (seconds) => Number(seconds) * 1_000),
  }
}
