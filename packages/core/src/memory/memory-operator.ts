// StoreOperator of the memory store, for one process. A scan returns all keys at once.

import { endOfEntry, NO_WINDOWS } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { optionError } from '../errors.ts'
import { type L1, type L1Item, sizeOf } from '../l1/l1.ts'
import type { Clock } from '../ports/clock.ts'
import type { Failure } from '../ports/store.ts'
import {
  type EntryTimes,
  type LockInfo,
  REPORT_LIMITS,
  type RecordInfo,
  type RecordKind,
  type ScanPage,
  type SharedFailure,
  type StoreOperator,
} from '../ports/store-operator.ts'
import { ExpiringMap } from './expiring-map.ts'
import type { MemoryIdempotency } from './memory-idempotency.ts'
import type { MemoryLocks } from './memory-locks.ts'

/** The parts of a store that its operator reads. */
export interface MemoryParts {
  /** The entries. Undefined if no Stampede uses the store. */
  readonly l1?: L1 | undefined
  readonly locks: MemoryLocks
  readonly idempotency: MemoryIdempotency
  /** Undefined before the store is attached. */
  readonly clock: Clock | undefined
}

export class MemoryOperator implements StoreOperator {
  readonly #parts: MemoryParts
  readonly #reports = new ExpiringMap<{ readonly text: string; readonly expiresAt: number }>(this)

  constructor(parts: MemoryParts) {
    this.#parts = parts
  }

  async inspect(key: string): Promise<RecordInfo | undefined> {
    const { l1 } = this.#parts
    const item = l1?.peek(key)
    const now = this.now()
    const variants = l1 !== undefined && l1.keysOf(key).length > 1
    const forMs = Math.max(0, endOf(item) - now)
    if (forMs === 0 && !variants) return undefined
    const { failure, failedUntil = 0 } = item ?? {}
    const failedForMs = Math.max(0, failedUntil - now)
    return {
      key,
      ...entryOf(key, item, now),
      deletedInMs: forMs,
      fence: item?.type === 'copy' ? item.held.fence : '',
      ...(item?.type === 'marker' && now < item.until && { passForMs: item.until - now }),
      ...(failure && failedForMs > 0 && { failure: shared(failure, failedForMs) }),
      ...(variants && { variants }),
      bytes: item === undefined ? 0 : sizeOf(item, key),
    }
  }

  async scan(kind: RecordKind): Promise<ScanPage> {
    const { l1, locks, idempotency } = this.#parts
    const source = { cache: l1, lock: locks, idempotency }[kind]
    return { cursor: '', keys: [...(source?.keys() ?? [])] }
  }

  async inspectLock(key: string): Promise<LockInfo | undefined> {
    const wallMs = this.#parts.clock?.wallNow() ?? Date.now()
    return this.#parts.locks.inspect(key, wallMs)
  }

  async report(process: string, text: string, ttlMs: number): Promise<number> {
    if (text.length > REPORT_LIMITS.characters) {
      throw optionError('report: text', text, `use at most ${REPORT_LIMITS.characters} characters`)
    }
    this.#reports.set(process, { text, expiresAt: this.now() + ttlMs })
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

  now(): number {
    return this.#parts.clock?.now() ?? 0
  }
}

function shared({ status, message }: Failure, forMs: number): SharedFailure {
  return { status, message, forMs }
}

type EntryPart = EntryTimes & Pick<RecordInfo, 'frame'>

const NO_ENTRY: EntryTimes = { ageMs: 0, freshForMs: 0, ...NO_WINDOWS }

function entryOf(key: string, item: L1Item | undefined, now: number): EntryPart {
  if (item?.type !== 'copy' || now >= endOfEntry(item.held)) return NO_ENTRY
  const { entry, bornAt, staleAt, windows } = item.held
  const frame = encodeFrame(key, entry)
  return { frame, ageMs: now - bornAt, freshForMs: staleAt - now, ...windows }
}

/** The moment at which all parts of the item have expired. */
function endOf(item: L1Item | undefined): number {
  if (item === undefined) return 0
  const end = item.type === 'copy' ? endOfEntry(item.held) : item.until
  return Math.max(end, item.failedUntil ?? 0)
}
