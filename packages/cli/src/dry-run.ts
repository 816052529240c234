// The number of entries that a purge would cover. Nothing is purged.

import { createStampede, type PurgeTarget } from '@stampede/core'
import { inspectFrame, runtimeOf } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'
import type { Fleet } from './fleet.ts'
import { readAll } from './scan.ts'
import type { Terminal } from './terminal.ts'

export interface DryRun {
  readonly entries: number
  /** Entries that this version cannot read, so that their tags and paths are unknown. */
  readonly unreadable: number
}

/**
 * Reads the entries in Redis. Entries that are purged already do not count, nor stale ones of a
 * soft purge. Redis computes what is stale with its own clock.
 */
export async function countEntries(
  { store, stampede, ...rest }: Fleet,
  target: PurgeTarget,
  soft: boolean,
  terminal: Terminal,
): Promise<DryRun> {
  const covers = await coverageOf(target)
  const { marks, records } = runtimeOf(stampede, 'purge')
  // A lookup makes sure that this process knows all purges. Without a lease it changes nothing.
  await records?.lookup('d:=', { token: '', leaseMs: 0 })
  const unreadable = new Set<string>()
  const read = async (key: string): Promise<string | undefined> => {
    if (!covers.key(key)) return undefined
    const info = await store.operator.inspect(key)
    if (info?.frame === undefined) return undefined
    const { entry } = inspectFrame(isHash(key) ? undefined : key, info.frame) ?? {}
    if (entry === undefined) unreadable.add(key)
    if (entry === undefined || !covers.provenance(entry.provenance)) return undefined
    const { purges, isFromLostHistory } = marks.covering(entry.provenance)
    const isStale = info.freshForMs <= 0 || purges.length > 0
    const isPurged = isFromLostHistory || purges.some((purge) => !purge.soft)
    return isPurged || (soft && isStale) ? undefined : key
  }
  const found = await readAll({ store, ...rest }, 'cache', terminal, read)
  // The name of a long key is only a hash, so the scan does not recognise it.
  const long = await Promise.all([...covers.keys].filter((key) => !found.includes(key)).map(read))
  const entries = found.length + long.filter((key) => key !== undefined).length
  return { entries, unreadable: unreadable.size }
}

const isHash = (key: string): boolean => /(^|\0)#/.test(key)

type Provenance = NonNullable<ReturnType<typeof inspectFrame>>['entry']['provenance']

/** Purges the target in a cache of its own, and asks that cache what the purge covers. */
async function coverageOf(target: PurgeTarget) {
  const own = createStampede()
  const keys = new Set<string>()
  own.on('entry.purged', ({ by, internalKey }) => void (by === 'key' && keys.add(internalKey)))
  try {
    await own.purge(target)
    const { marks } = runtimeOf(own, 'purge')
    return {
      keys,
      key: (key: string) => keys.size === 0 || keys.has(groupOf(key)),
      provenance: (each: Provenance) =>
        keys.size > 0 || marks.covering({ ...each, asOf: 0 }).purges.length > 0,
    }
  } finally {
    await own.close()
  }
}
