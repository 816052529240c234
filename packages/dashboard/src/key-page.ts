// api/key: the entry of one key, and its latest events.

import type { Stampede } from '@stampede/core'
import { namedKeys, requestKey, shownKey } from '@stampede/core/operator'
import type { StoreOperator } from '@stampede/core/store'
import {
  entryFacts,
  isReported,
  type observe,
  type ProcessReport,
  variantParts,
} from '@stampede/operate'
import { type FleetView, type Heard, nameOf } from './fleet-view.ts'

type EntryFacts = NonNullable<Awaited<ReturnType<typeof entryFacts>>>
type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>

type Observer = ReturnType<typeof observe>

/** The stored entry without its body, which may be private. */
export interface StoredView extends Omit<EntryFacts, 'body'> {
  readonly bodyBytes: number
}

export interface KeyView {
  readonly asked: string
  readonly internalKey: string
  /** The key for readers. */
  readonly key: string
  readonly kind: 'response' | 'value' | 'custom'
  /** The key for `purge({ key })`. Undefined for a response under its URL. */
  readonly purgeKey?: string
  /** Why a plain request with this URL bypasses the cache. */
  readonly bypass?: string
  readonly record?: Omit<RecordInfo, 'frame'>
  readonly entry?: StoredView
  /** Whether a frame is stored that this process cannot decode. */
  readonly isUnreadable: boolean
  /** Variants of the key that reports name. The key of a variant leads to its page. */
  readonly variants: ReadonlyArray<{ readonly internalKey: string; readonly text: string }>
  /** Flights of this key, by process. */
  readonly flights: ReadonlyArray<ProcessReport['flights'][number] & { readonly process: string }>
  /** Events of this key, newest first. */
  readonly events: FleetView['events']
  /** Why the key was filled the last time, if a process still knows it. */
  readonly lastFill?: NonNullable<ReturnType<Observer['lastFill']>> & { readonly process: string }
}

/** Longest key that is looked for. */
export const LONGEST_KEY = 8_192

/** `asked`: a URL, a key of the application, or an internal key. */
export async function keyView(
  stampede: Stampede,
  observer: Observer,
  heard: readonly Heard[],
  asked: string,
): Promise<KeyView> {
  const { candidates, bypass } = candidatesFor(asked)
  const infos = await Promise.all(candidates.map((key) => observer.operator.inspect(key)))
  const at = Math.max(
    0,
    infos.findIndex((info) => info !== undefined),
  )
  const internalKey = candidates[at] ?? asked
  const info = infos[at]
  const facts = info && (await entryFacts(stampede, info))
  const events = eventsFor(internalKey, heard)
  const lastFill = lastFillOf(internalKey, heard, observer)
  return {
    asked,
    internalKey,
    key: shownKey(internalKey),
    ...kindOf(internalKey),
    ...(bypass !== undefined && { bypass }),
    ...(info && { record: withoutFrame(info) }),
    ...(facts && { entry: withoutBody(facts) }),
    isUnreadable: info?.frame !== undefined && facts === undefined,
    variants: variantsOf(internalKey, heard),
    flights: flightsOf(internalKey, heard),
    events,
    ...(lastFill && { lastFill }),
  }
}

/** The internal keys that the text may mean. */
function candidatesFor(asked: string): { candidates: readonly string[]; bypass?: string } {
  const url = asked.replace(/^(GET|QUERY) /, '')
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) {
    const { key, bypass } = requestKey({ url })
    const written = requestKey({ url, asWritten: true }).key
    const candidates = [...new Set([written, key])]
    return { candidates, ...(bypass !== undefined && { bypass }) }
  }
  if (/^(?:http:(?:GET|key) |d:[=j])/.test(asked)) return { candidates: [asked] }
  return { candidates: namedKeys(asked) }
}

function kindOf(internalKey: string): Pick<KeyView, 'kind' | 'purgeKey'> {
  if (internalKey.startsWith('http:GET ')) return { kind: 'response' }
  const kind = internalKey.startsWith('d:') ? 'value' : 'custom'
  return { kind, purgeKey: shownKey(internalKey) }
}

function withoutFrame({ frame: _frame, ...info }: RecordInfo): Omit<RecordInfo, 'frame'> {
  return info
}

function withoutBody({ body, ...facts }: EntryFacts): StoredView {
  return { ...facts, bodyBytes: body.byteLength }
}

function variantsOf(internalKey: string, heard: readonly Heard[]): KeyView['variants'] {
  const isOurs = isReported(internalKey)
  const ids = heard.flatMap(({ report: { flights, hotKeys, recent } }) =>
    [...flights, ...hotKeys, ...recent].map(({ id }) => id),
  )
  return [...new Set(ids)].flatMap((id) => {
    const text = variantParts(id).map((part) => part.text)
    return id !== internalKey && isOurs(id) && text.length > 0
      ? [{ internalKey: id, text: text.join(', ') }]
      : []
  })
}

function flightsOf(internalKey: string, heard: readonly Heard[]): KeyView['flights'] {
  const isOurs = isReported(internalKey)
  return heard.flatMap(({ report }) =>
    report.flights
      .filter(({ id }) => isOurs(id))
      .map((flight) => ({ ...flight, process: nameOf(report) })),
  )
}

/** A purge of a tag, path or route has that target as its key, so it is not among these events. */
function eventsFor(internalKey: string, heard: readonly Heard[]): KeyView['events'] {
  const isOurs = isReported(internalKey)
  return heard
    .flatMap(({ report }) =>
      report.recent
        .filter(({ id }) => isOurs(id))
        .map((event) => ({ ...event, process: nameOf(report) })),
    )
    .sort((a, b) => b.at - a.at)
}

/**
 * The newest fill that a process remembers. Each process reports those of its hottest keys. This
 * process, the first of `heard`, knows those of its other keys as well.
 */
function lastFillOf(
  internalKey: string,
  heard: readonly Heard[],
  observer: Observer,
): KeyView['lastFill'] {
  const isOurs = isReported(internalKey)
  const reported = heard.flatMap(({ report }) => {
    const hot = report.hotKeys.filter(({ id }) => isOurs(id)).map(({ fill }) => fill)
    const granted = report.recent.filter(({ id, type }) => type === 'lease.granted' && isOurs(id))
    const seen = granted.map(({ at, fields }) => ({ at, reason: String(fields.reason) }))
    return [...hot, ...seen].map((fill) => ({ ...fill, process: nameOf(report) }))
  })
  const own = observer.lastFill(internalKey)
  const [self] = heard
  if (own && self) reported.push({ ...own, process: nameOf(self.report) })
  // The last of several fills in one millisecond is the newest.
  return reported
    .filter(({ at }) => at > 0)
    .sort((a, b) => a.at - b.at)
    .at(-1)
}
