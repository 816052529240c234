// api/locks: locks in the store, with their queues. One page of a scan, on demand only.

import type { StoreOperator } from '@stampede/core/store'

type LockInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspectLock']>>>

export interface LocksView {
  /** Continues the scan. Empty at its end. */
  readonly cursor: string
  readonly locks: readonly LockInfo[]
}

/** Names of records that one request examines. Each may be a lock, whose state takes a command. */
const PAGE = 100

export async function locksView(operator: StoreOperator, cursor: string): Promise<LocksView> {
  const page = await operator.scan('lock', cursor, PAGE)
  const infos = await Promise.all(page.keys.map((key) => operator.inspectLock(key)))
  return { cursor: page.cursor, locks: infos.filter((info) => info !== undefined) }
}
