// The record of one key: the stored entry, and the result of the next lookup.

import type { StoreOperator } from '@stampede/core/store'
import { entryFacts } from '@stampede/operate'
import type { Fleet } from './fleet.ts'
import { bytes, count, duration, pairs } from './format.ts'

type EntryFacts = NonNullable<Awaited<ReturnType<typeof entryFacts>>>
type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>

/**
 * State of an entry for the next request. `stale`: it is served and refreshed. `stale-if-error`: it
 * is served only if the origin fails. `expired`: the origin may only confirm it.
 */
export type EntryState =
  | 'none'
  | 'fresh'
  | 'stale'
  | 'stale-if-error'
  | 'expired'
  | 'purged'
  | 'unreadable'

export interface RecordView {
  readonly key: string
  readonly state: EntryState
  readonly info: RecordInfo | undefined
  readonly facts: EntryFacts | undefined
}

export async function readRecord({ store, stampede }: Fleet, key: string): Promise<RecordView> {
  const info = await store.operator.inspect(key)
  const facts = info && (await entryFacts(stampede, info))
  return { key, state: stateOf(info, facts), info, facts }
}

function stateOf(info: RecordInfo | undefined, facts: EntryFacts | undefined): EntryState {
  if (info?.frame === undefined) return 'none'
  if (facts === undefined) return 'unreadable'
  if (facts.isFromLostHistory || facts.purges.some(({ soft }) => !soft)) return 'purged'
  const staleForMs = -freshForMs(info, facts)
  if (staleForMs < 0) return 'fresh'
  if (staleForMs < info.staleWhileRevalidateMs) return 'stale'
  return staleForMs < info.staleIfErrorMs ? 'stale-if-error' : 'expired'
}

/** Remaining freshness. The first soft purge after the fill has ended it. */
export function freshForMs(info: RecordInfo, facts: EntryFacts): number {
  const softAt = facts.purges.find(({ soft }) => soft)?.at
  return softAt === undefined ? info.freshForMs : Math.min(info.freshForMs, softAt - Date.now())
}

/** The record as JSON, without the body. */
export function asJson({ key, state, info, facts }: RecordView): object {
  const { frame: _, ...known } = info ?? {}
  const { body, ...about } = facts ?? {}
  return {
    internalKey: key,
    state,
    ...(info !== undefined && { record: known }),
    ...(facts !== undefined && { entry: { ...about, bodyBytes: body?.byteLength } }),
  }
}

/** The record as lines of names and values. */
export function asLines({ key, state, info, facts }: RecordView): string[] {
  if (info === undefined)
    return pairs([
      ['key', key],
      ['stored', 'nothing'],
    ])
  const fresh = facts === undefined ? info.freshForMs : freshForMs(info, facts)
  const { lease, passForMs, failure } = info
  return pairs([
    ['key', key],
    ['stored', whatIsStored(state, facts)],
    ['age', facts && duration(info.ageMs)],
    [
      'fresh',
      facts && (fresh > 0 ? `for ${duration(fresh)}` : `no, stale for ${duration(-fresh)}`),
    ],
    ['stale windows', facts && windowsOf(info)],
    ['tags', facts && facts.tags.length > 0 ? facts.tags.join(', ') : undefined],
    ['vary', facts && facts.vary.length > 0 ? varyOf(facts) : undefined],
    ['fill took', facts && duration(facts.tookMs)],
    ...(facts?.purges ?? []).map((purge) => ['purged', purgeText(purge)] as const),
    ['lease', lease && leaseText(lease)],
    ['hit-for-miss', passForMs === undefined ? undefined : `${duration(passForMs)} left`],
    ['failure', failure && `${failure.status} ${failure.message}, ${duration(failure.forMs)} left`],
    ['fence', info.fence === '' ? undefined : info.fence],
    ['variants', info.variants ? 'this URL has variants, with records of their own' : undefined],
    ['size', bytes(info.bytes)],
    ['deleted in', duration(info.deletedInMs)],
  ])
}

export function purgeText({ by, subject, soft, at }: EntryFacts['purges'][number]): string {
  const what = by === 'all' ? 'of everything' : `by ${by} ${subject}`
  return `${what}${soft ? ' (soft)' : ''}, ${duration(Date.now() - at)} ago`
}

export function leaseText({ remainingMs, waiters }: NonNullable<RecordInfo['lease']>): string {
  return `${duration(remainingMs)} left, ${count(waiters, 'process')} waiting`
}

function whatIsStored(state: EntryState, facts: EntryFacts | undefined): string {
  if (state === 'none') return 'no entry'
  if (facts === undefined) return 'an entry that this version cannot read'
  const size = bytes(facts.body.byteLength)
  const kind =
    facts.type === 'response' ? `response ${facts.status}` : `value (${facts.encoding ?? 'bytes'})`
  const codec = facts.compressed === undefined ? '' : ` (${facts.compressed} in Redis)`
  return `${kind}, ${size}${codec}, ${state}`
}

function windowsOf({ staleWhileRevalidateMs, staleIfErrorMs, keepMs }: RecordInfo): string {
  const [swr, sie, keep] = [staleWhileRevalidateMs, staleIfErrorMs, keepMs].map(duration)
  return `stale-while-revalidate ${swr}, stale-if-error ${sie}, revalidation ${keep}`
}

function varyOf({ vary }: EntryFacts): string {
  return vary.map(([name, value]) => `${name}: ${value ?? '(absent)'}`).join(', ')
}
