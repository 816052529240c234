// StoreOperator of the memory store, for one process. A scan returns all keys at once.

import { UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { optionError } from '../errors.ts'
import type { Clock } from '../ports/clock.ts'
import type { Failure } from '../ports/store.ts'
import {
  LONGEST_REPORT,
  type LockInfo,
  type RecordInfo,
  type RecordKind,
  type ScanPage,
  type SharedFailure,
  type StoreInfo,
  type StoreOperator,
} from '../ports/store-operator.ts'
import { ExpiringMap } from './expiring-map.ts'
import {
  bytesOf,
  endOf,
  heldIn,
  type MemoryRecord,
  newRecord,
  passUntil,
  usable,
} from './memory-record.ts'

/** The parts of the memory store that an operator reads. */
export interface MemoryParts {
  records(): {
    keys(): Iterable<string>
    keysOf(group: string): readonly string[]
    peek(key: string): MemoryRecord | undefined
    readonly maxSize: number
    readonly calculatedSize: number
  }
  readonly locks: {
    keys(): Iterable<string>
    inspect(key: string, wallMs: number): LockInfo | undefined
  }
  readonly idempotency: { keys(): Iterable<string> }
  clock(): Pick<Clock, 'now' | 'wallNow'> | undefined
}

export class MemoryOperator implements StoreOperator {
  readonly #parts: MemoryParts
  readonly #reports: ExpiringMap<{ readonly text: string; readonly expiresAt: number }>

  constructor(parts: MemoryParts) {
    this.#parts = parts
    this.#reports = new ExpiringMap(() => this.#now())
  }

  async inspect(key: string): Promise<RecordInfo | undefined> {
    const records = this.#parts.records()
    const record = records.peek(key) ?? newRecord()
    const now = this.#now()
    const variants = records.keysOf(key).length > 1
    if (!variants && now >= endOf(record)) return undefined
    const remainingMs = record.token === '' ? 0 : Math.max(0, record.leaseUntil - now)
    const passForMs = Math.max(0, passUntil(record) - now)
    const forMs = Math.max(0, record.retryAt - now)
    return {
      key,
      ...entryOf(key, record, now),
      deletedInMs: Math.max(0, endOf(record) - now),
      fence: String(record.fence),
      ...(remainingMs > 0 && { lease: { remainingMs, waiters: record.waiting ? 1 : 0 } }),
      ...(passForMs > 0 && { passForMs }),
      ...(record.failure && forMs > 0 && { failure: shared(record.failure, forMs) }),
      ...(variants && { variants }),
      bytes: bytesOf(record, key),
    }
  }

  async scan(kind: RecordKind): Promise<ScanPage> {
    const { records, locks, idempotency } = this.#parts
    const source = { cache: records(), lock: locks, idempotency }[kind]
    return { cursor: '', keys: [...source.keys()] }
  }

  async inspectLock(key: string): Promise<LockInfo | undefined> {
    return this.#parts.locks.inspect(key, this.#wallMs())
  }

  async report(process: string, text: string, ttlMs: number): Promise<number> {
    if (text.length > LONGEST_REPORT) {
      throw optionError('report: text', text, `use at most ${LONGEST_REPORT} characters`)
    }
    this.#reports.set(process, { text, expiresAt: this.#now() + ttlMs })
    return (await this.reports()).size
  }

  async reports(): Promise<ReadonlyMap<string, string>> {
    const live = new Map<string, string>()
    for (const process of [...this.#reports.keys()]) {
      const report = this.#reports.get(process)
      if (report !== undefined) live.set(process, report.text)
    }
    return live
  }

  async info(): Promise<StoreInfo> {
    const { maxSize, calculatedSize } = this.#parts.records()
    return {
      server: 'memory',
      version: 'unknown',
      mode: 'process',
      maxMemoryBytes: maxSize,
      usedMemoryBytes: calculatedSize,
      timeMs: this.#wallMs(),
      latencyMs: 0,
      denied: [],
    }
  }

  #now(): number {
    return this.#parts.clock()?.now() ?? 0
  }

  #wallMs(): number {
    return this.#parts.clock()?.wallNow() ?? Date.now()
  }
}

function shared({ status, message }: Failure, forMs: number): SharedFailure {
  return { status, message, forMs }
}

type EntryPart = Pick<
  RecordInfo,
  'frame' | 'ageMs' | 'freshForMs' | 'staleWhileRevalidateMs' | 'staleIfErrorMs' | 'keepMs'
>

const NO_ENTRY: EntryPart = {
  ageMs: 0,
  freshForMs: 0,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
}

function entryOf(key: string, record: MemoryRecord, now: number): EntryPart {
  const held = usable(record, now) && heldIn(record)
  if (held === undefined) return NO_ENTRY
  const { entry, bornAt, staleAt, revalidateUntil, errorUntil, keepUntil } = held
  // A caller of `commit` wrote this body as a frame. Other entries are objects.
  const isFrame = entry.provenance === UNKNOWN_PROVENANCE
  return {
    frame: isFrame ? entry.body : encodeFrame(key, entry),
    ageMs: now - bornAt,
    freshForMs: staleAt - now,
    staleWhileRevalidateMs: revalidateUntil - staleAt,
    staleIfErrorMs: errorUntil - staleAt,
    keepMs: keepUntil - staleAt,
  }
}
