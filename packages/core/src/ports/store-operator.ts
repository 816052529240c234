// The interface by which operators look into a store. The dashboard and the command line use it. No
// request of the application does.

import type { Windows } from '../fill-options.ts'

/** The kind of a record in the store. */
export type RecordKind = 'cache' | 'lock' | 'idempotency'

/** The times of an entry, counted from the moment of the store's reply. */
export interface EntryTimes extends Windows {
  readonly ageMs: number
  /** Remaining freshness. Negative if the entry is stale. */
  readonly freshForMs: number
}

/**
 * The record of a cache key as the next lookup would read it. Times count from the moment of the
 * reply. Without an entry, `frame` is undefined, and the five durations of an entry are 0.
 */
export interface RecordInfo extends EntryTimes {
  readonly key: string
  readonly frame?: Uint8Array
  /** Time until the store deletes the record. */
  readonly deletedInMs: number
  /** Fence of the newest lease or soft purge. */
  readonly fence: string
  /** The lease of a running fill. `waiters`: number of processes that wait for it. */
  readonly lease?: { readonly remainingMs: number; readonly waiters: number }
  /** Remaining time of hit-for-miss. */
  readonly passForMs?: number
  /** The failure of the last fill, which requests share. */
  readonly failure?: SharedFailure
  /** True for a key that has, or had, variants with records of their own. */
  readonly variants?: boolean
  /** Size of the record in the store. */
  readonly bytes: number
}

/** A failed fill that callers share until its back-off is over. */
export interface SharedFailure {
  /** HTTP status of the response, 500 to 599. */
  readonly status: number
  readonly message: string
  /** Rest of the back-off. */
  readonly forMs: number
}

/** A lock that is held, or whose lease ran out while processes are queued. */
export interface LockInfo {
  readonly key: string
  /** First characters of the holder's token. The whole token would allow a release. */
  readonly token: string
  readonly fence: string
  /** Remaining lease, which the holder may renew. */
  readonly remainingMs: number
  /** Time since the lock was granted. Undefined if the store does not know it. */
  readonly heldForMs?: number
  /** Number of processes in the lock queue. */
  readonly queue: number
}

/** One page of a scan. `cursor` continues the scan, and is empty at its end. */
export interface ScanPage {
  readonly cursor: string
  readonly keys: readonly string[]
}

/**
 * All methods reject with `ERR_STAMPEDE_STORE_UNAVAILABLE` if the store does not reply in time, or
 * if the server refuses a command. None of them changes a record.
 */
export interface StoreOperator {
  /** Undefined if there is no record, or if the next lookup would ignore it. */
  inspect(key: string): Promise<RecordInfo | undefined>
  /**
   * Lists the keys of one kind, page by page, beginning with the cursor ''. The work of one call is
   * bounded: it examines about `limit` names, and `keys` may be empty before the end. A key that
   * exists during the whole scan is listed at least once. A store in this process may return all
   * keys at once.
   *
   * The name of a record may have only a hash of a long key or variant. For such a record, `keys`
   * has a reference: `#` and the hash in place of a key, or `<key>` NUL `#` and the hash for a
   * variant. `inspect` accepts references. The hash hides the kind of the key. So a long key of a
   * lock is listed by the kind `cache`.
   */
  scan(kind: RecordKind, cursor: string, limit: number): Promise<ScanPage>
  /** Undefined if no process holds the lock or is queued for it. */
  inspectLock(key: string): Promise<LockInfo | undefined>
  /**
   * Publishes a text about a process for `ttlMs`, in one command. It replaces the earlier text of
   * that process. Returns the number of processes whose texts have not expired.
   */
  report(process: string, text: string, ttlMs: number): Promise<number>
  /** The texts that have not expired, by process. One command. At most 1000 texts. */
  reports(): Promise<ReadonlyMap<string, string>>
}

/** Most characters of a report, and the longest time in ms for which it may be kept. */
export const REPORT_LIMITS = { characters: 65_536, ms: 3_600_000 } as const
