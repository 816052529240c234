// Scans of all records of one kind, with a progress bar.

import type { StoreOperator } from '@stampede/core/store'
import type { Fleet } from './fleet.ts'
import type { Terminal } from './terminal.ts'

type RecordKind = Parameters<StoreOperator['scan']>[0]

/** Names that one command examines. Redis serves no other client meanwhile, so it is not larger. */
const PAGE = 1_000
/** Records that are read at a time. */
const AT_ONCE = 50

/** A server whose records can be listed. PostgreSQL has no `probe`. */
interface Scanned extends Partial<Pick<Fleet, 'probe' | 'isCluster'>> {
  readonly store: { readonly operator: Pick<StoreOperator, 'scan'> }
}

/** Calls `read` with each key of a kind. Returns the results that are not undefined. */
export async function readAll<T>(
  { store, probe, isCluster }: Scanned,
  kind: RecordKind,
  terminal: Terminal,
  read: (key: string) => Promise<T | undefined>,
): Promise<T[]> {
  // The user may not run DBSIZE, and in a cluster each master has its own.
  const total = isCluster ? undefined : await probe?.dbsize().catch(() => undefined)
  const progress = terminal.progress('Scanning')
  // A scan may list a key more than once.
  const seen = new Set<string>()
  const found: T[] = []
  let cursor = ''
  let examined = 0
  do {
    const page = await store.operator.scan(kind, cursor, PAGE)
    cursor = page.cursor
    examined += PAGE
    const keys = page.keys.filter((key) => !seen.has(key))
    for (const key of keys) seen.add(key)
    for (let i = 0; i < keys.length; i += AT_ONCE) {
      const some = await Promise.all(keys.slice(i, i + AT_ONCE).map(read))
      for (const each of some) if (each !== undefined) found.push(each)
    }
    progress.show(Math.min(examined, total ?? examined), total)
  } while (cursor !== '')
  progress.clear()
  return found
}
