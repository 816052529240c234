// api/locks: locks in the store, with their queues. One page of a scan, on demand only.

import type { StoreOperator } from '@stampede/core/store'

type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>

export interface LocksView {
  /** Continues the scan. Empty at its end. */
  readonly cursor: string
  readonly locks: readonly LockInfo[]
}

/** Names of records that one request examines. */
const PAGE = 500
/** Locks that one request inspects, with one command each. */
const MOST_LOCKS = 100

export async function locksView(operator: StoreOperator, cursor: string): Promise<LocksView> {
  const page = await operator.scan('lock', cursor, PAGE)
  const keys = page.keys.filter((key) => !key.includes('#')).slice(0, MOST_LOCKS)
  const infos = await Promise.all(keys.map((key) => operator.inspectLock(key)))
  return { cursor: page.cursor, locks: infos.filter((info) => info !== undefined) }
}
