// StoreOperator on Redis. Each operation is one script or one plain command, within the time budget
// and without the circuit breaker: an operator also asks while Redis is in trouble.

import {
  optionError,
  REPORT_LIMITS,
  readers,
  type StoreOperator,
  storeUnavailable,
} from '@stampede/core/store'
import { type ClusterConnection, type Connection, textOf } from '../connection/client-types.ts'
import type { RedisLink } from '../connection/link.ts'
import { IDEMPOTENCY_PREFIX, LOCK_PREFIX } from '../protocol/keys.ts'
import { bytes, duration, readFailure, storedFrame } from '../protocol/lookup-reply.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import {
  inspectEntry,
  inspectLock,
  readReports,
  reportProcess,
  type Script,
} from '../protocol/scripts.generated.ts'

type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>
type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>
type SharedFailure = NonNullable<RecordInfo['failure']>
type RecordKind = Parameters<StoreOperator['scan']>[0]
type ScanPage = Awaited<ReturnType<StoreOperator['scan']>>

/** First characters of keys. Responses and values of core begin with `http:` and `d:`. */
const BEGIN: Readonly<Record<RecordKind, string>> = {
  cache: '',
  lock: LOCK_PREFIX,
  idempotency: IDEMPOTENCY_PREFIX,
}

/** Bounds of one reply with reports. Redis serves no other client while it sends the reply. */
const MAX_REPORTS = 1_000
const MAX_REPORTS_BYTES = 16 * 1024 * 1024

const readLimit = readers.number(100, { min: 1, max: 10_000, unit: 'names' })
const readTtl = readers.number(10_000, { min: 1, max: REPORT_LIMITS.ms, unit: 'milliseconds' })

/** One master, or the only server. */
interface Master {
  readonly name: string
  readonly node: Pick<Connection, 'callBuffer'>
}

export class RedisOperator implements StoreOperator {
  readonly #link: RedisLink

  constructor(link: RedisLink) {
    this.#link = link
  }

  async inspect(key: string): Promise<RecordInfo | undefined> {
    const { names } = this.#link
    const record = names.recordOf(key)
    const [group = ''] = /^.*\}(?=:[\w-]{43}$)/s.exec(record) ?? []
    const keys = group === '' ? [record] : [record, group]
    return readRecordInfo(await this.#run(inspectEntry, keys, []), key)
  }

  async inspectLock(key: string): Promise<LockInfo | undefined> {
    const record = this.#link.names.recordOf(BEGIN.lock + key)
    return readLockInfo(await this.#run(inspectLock, [record], []), key)
  }

  /** `cursor` is `<cursor of SCAN> <master>`. Masters are scanned in the order of their names. */
  async scan(kind: RecordKind, cursor: string, limit: number): Promise<ScanPage> {
    const count = readLimit('scan: limit', limit)
    const [, at = '0', name = ''] = /^(\d+) (.*)$/.exec(cursor) ?? []
    const masters = await this.#masters()
    const master = masters.find((each) => each.name >= name)
    if (master === undefined) return { cursor: '', keys: [] }
    // If the master of the cursor has left the cluster, the scan of the next master begins.
    const from = master.name === name ? at : '0'
    const { names } = this.#link
    const pattern = names.pattern(BEGIN[kind])
    const raw = await this.#link.askBy('scan', () =>
      master.node.callBuffer('SCAN', from, 'MATCH', pattern, 'COUNT', count),
    )
    const [next, found] = raw as [unknown, unknown[]]
    const keys = found.flatMap((record) => keyOfKind(kind, names.keyOf(String(record))) ?? [])
    if (String(next) !== '0') return { cursor: `${next} ${master.name}`, keys }
    const following = masters[masters.indexOf(master) + 1]
    return { cursor: following === undefined ? '' : `0 ${following.name}`, keys }
  }

  async report(process: string, text: string, ttlMs: number): Promise<number> {
    if (text.length > REPORT_LIMITS.characters) {
      throw optionError('report: text', text, `use at most ${REPORT_LIMITS.characters} characters`)
    }
    const forMs = readTtl('report: ttlMs', ttlMs)
    const args = [process, text, forMs, REPORT_LIMITS.ms]
    return Number(await this.#run(reportProcess, this.#link.names.reports, args))
  }

  async reports(): Promise<ReadonlyMap<string, string>> {
    const args = [MAX_REPORTS, MAX_REPORTS_BYTES]
    const raw = (await this.#run(readReports, this.#link.names.reports, args)) as unknown[]
    const reports = new Map<string, string>()
    for (let i = 0; i + 1 < raw.length; i += 2) reports.set(String(raw[i]), String(raw[i + 1]))
    return reports
  }

  /** The masters by name. */
  #masters(): Promise<Master[]> {
    return this.#link.askBy('masters', async ({ connection }) => {
      if (!this.#link.isCluster) return [{ name: '', node: connection }]
      const nodes = (connection as ClusterConnection).nodes('master')
      const masters = nodes.map((node) => ({ name: textOf(node.options), node }))
      return masters.sort((a, b) => (a.name < b.name ? -1 : 1))
    })
  }

  #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    return this.#link.run<unknown>(script, keys, args, (raw) => raw, { isBackground: true })
  }
}

/** The key without the prefix of its kind. Undefined for a record of another kind. */
function keyOfKind(kind: RecordKind, key: string | undefined): string | undefined {
  if (kind !== 'cache') return key?.slice(BEGIN[kind].length)
  return key?.startsWith(LOCK_PREFIX) || key?.startsWith(IDEMPOTENCY_PREFIX) ? undefined : key
}

// Parses the replies of lua/inspect-entry-2.lua and lua/inspect-lock-1.lua.

function readRecordInfo(raw: unknown, key: string): RecordInfo | undefined {
  const parts = partsOf(raw, 'inspect-entry')
  if (String(parts[0]) === 'ABSENT') return undefined
  const [, fence, size, deletedInMs, leaseMs, waiters, passMs, retryMs, failure, ...rest] = parts
  const [variants, ageMs, freshForMs, ...windows] = rest
  // A record without an entry ends with `variants`.
  const found = bytes(windows[3])
  const { frame, ...entry } = storedFrame(String(fence), found, ageMs, freshForMs, windows)
  const [remainingMs, passForMs, forMs] = [duration(leaseMs), duration(passMs), duration(retryMs)]
  return {
    key,
    ...(frame !== undefined && { frame }),
    ...entry,
    deletedInMs: duration(deletedInMs),
    ...(remainingMs > 0 && { lease: { remainingMs, waiters: count(waiters) } }),
    ...(passForMs > 0 && { passForMs }),
    ...(forMs > 0 && String(failure) !== '' && { failure: shared(failure, forMs) }),
    ...(Number(variants) === 1 && { variants: true }),
    bytes: count(size),
  }
}

function readLockInfo(raw: unknown, key: string): LockInfo | undefined {
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
  throw storeUnavailable('redis', script, 'the reply is not an array')
}
