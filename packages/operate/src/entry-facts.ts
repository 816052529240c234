// The facts of a stored entry, and the purges that cover it, for tools of operators.

import type { Stampede, StampedeEvent } from '@stampede/core'
import type { HeaderList } from '@stampede/core/adapter'
import { inspectFrame, runtimeOf, shownKey } from '@stampede/core/operator'
import type { StoreOperator } from '@stampede/core/store'

type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>

/** A purge that came after the fill of an entry, and covers the entry. */
interface PurgeView {
  readonly by: Exclude<Extract<StampedeEvent, { type: 'entry.purged' }>['by'], 'key'>
  /** The tag, cache group, path or route. Undefined for everything. */
  readonly subject?: string
  readonly soft: boolean
  /** Time of the purge on the clock of the store, in ms since the Unix epoch. */
  readonly at: number
}

/** A stored entry: a response, or a value of `getOrSet`. */
export interface EntryFacts {
  readonly type: 'response' | 'value'
  readonly status?: number
  readonly headers: HeaderList
  /** The request fields that select the response, and their values. `null`: absent. */
  readonly vary: ReadonlyArray<readonly [name: string, value: string | null]>
  /** How `body` of a value is encoded. */
  readonly encoding?: 'json' | 'bytes'
  readonly body: Uint8Array
  /** How the store has compressed the body. */
  readonly compressed?: NonNullable<NonNullable<ReturnType<typeof inspectFrame>>['codec']>
  /** Tags and cache groups. */
  readonly tags: readonly string[]
  readonly path?: string
  readonly host?: string
  /** Duration of the fill. */
  readonly tookMs: number
  /** Oldest first. */
  readonly purges: readonly PurgeView[]
  /** Whether purges of this entry may be unknown. Then the entry counts as purged. */
  readonly isFromLostHistory: boolean
}

/**
 * The facts of the entry in a record. Undefined if there is no entry, or if the frame cannot be
 * decoded, as under a reference (`scan`). Rejects if the store cannot find out which purges
 * happened.
 */
export async function entryFacts(
  stampede: Stampede,
  { key, frame }: Pick<RecordInfo, 'key' | 'frame'>,
): Promise<EntryFacts | undefined> {
  const found = frame && inspectFrame(key, frame)
  if (found === undefined) return undefined
  const { entry, codec: compressed } = found
  const rt = runtimeOf(stampede, 'entryFacts')
  // A lookup makes sure that this process knows all purges. Without a lease it changes nothing.
  await rt.records?.lookup(key, { token: '', leaseMs: 0 })
  const { provenance, body } = entry
  const { subjects, path, host, tookMs } = provenance
  const { purges, isFromLostHistory } = rt.marks.covering(provenance)
  const about =
    entry.type === 'response'
      ? {
          type: entry.type,
          status: entry.status,
          headers: pairsOf(entry.fields),
          vary: entry.vary,
        }
      : { type: entry.type, headers: [], vary: [], encoding: entry.encoding }
  return {
    ...about,
    body,
    ...(compressed !== undefined && { compressed }),
    tags: subjects.filter((each) => /^[tg]/.test(each)).map(shownKey),
    ...(path !== undefined && { path }),
    ...(host !== undefined && { host }),
    tookMs,
    isFromLostHistory,
    purges: purges.map(({ by, subject, soft, position }) => ({
      by,
      ...(by !== 'all' && { subject: shownKey(subject) }),
      soft,
      at: Math.floor(position / 1_000),
    })),
  }
}

/** Pairs of name and value from a list in which they alternate. */
function pairsOf(fields: readonly string[]): HeaderList {
  return fields.flatMap((name, i) => (i % 2 === 0 ? [[name, fields[i + 1] ?? '']] : []))
}
