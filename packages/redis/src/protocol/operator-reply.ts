// Parses the replies of lua/inspect-entry-2.lua and lua/inspect-lock-1.lua, and the reply to INFO.

import { type RecordInfo, type StoreOperator, unknownReply } from '@stampede/core/store'
import { bytes, duration, readFailure, signedDuration } from './lookup-reply.ts'

type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>
type SharedFailure = NonNullable<RecordInfo['failure']>
type StoreInfo = Awaited<ReturnType<StoreOperator['info']>>

/** Number of the parts that a record without an entry has. */
const PARTS_WITHOUT_ENTRY = 10

export function readRecordInfo(raw: unknown, key: string): RecordInfo | undefined {
  const parts = readParts(raw, 'inspect-entry')
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
  const [status, token, fence, remainingMs, heldForMs, queue] = readParts(raw, 'inspect-lock')
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

function readParts(raw: unknown, script: string): unknown[] {
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
  const valkey = field('valkey_version')
  const facts = {
    evictionPolicy: field('maxmemory_policy'),
    maxMemoryBytes: numberIn(field('maxmemory')),
    usedMemoryBytes: numberIn(field('used_memory')),
    role: roleIn(field('role')),
    connectedReplicas: numberIn(field('connected_slaves')),
    isAppendOnly: flagIn(field('aof_enabled')),
    uptimeMs: numberIn(field('uptime_in_seconds'), 1_000),
  }
  return {
    server: valkey === undefined ? 'redis' : 'valkey',
    version: valkey ?? field('redis_version') ?? 'unknown',
    mode: isCluster ? 'cluster' : 'standalone',
    ...withoutUndefined(facts),
  }
}

type Known<T> = { [Name in keyof T]?: Exclude<T[Name], undefined> }

function withoutUndefined<T extends object>(facts: T): Known<T> {
  const known = Object.entries(facts).filter(([, value]) => value !== undefined)
  return Object.fromEntries(known) as Known<T>
}

function numberIn(text: string | undefined, factor = 1): number | undefined {
  return text === undefined ? undefined : Number(text) * factor
}

function flagIn(text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : text === '1'
}

function roleIn(text: string | undefined): 'master' | 'replica' | undefined {
  if (text === undefined) return undefined
  return text === 'master' ? 'master' : 'replica'
}
