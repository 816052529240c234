// The variants of a URL, and the responses of its path under the option `key`.

import { createHash } from 'node:crypto'
import { requestKey, shownKey } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'
import { variantParts } from '@stampede/operate'
import type { AskedRequest } from './asked-key.ts'
import type { Fleet } from './fleet.ts'
import { count } from './format.ts'
import { type RecordView, readRecord } from './records.ts'
import type { ProcessView } from './reports.ts'

export interface Variants {
  /** Stored variants that reports name. */
  readonly named: readonly RecordView[]
  /** Stored variants of which only a hash is known. */
  readonly unnamed: number
  /** Results of the option `key` whose responses have the path of the URL. */
  readonly customKeys: readonly string[]
}

const MOST_NAMED = 100
const PAGE = 1_000

/**
 * Looks for the variants in the reports, and in the names of the server's keys: at most `mostNames`
 * of them.
 */
export async function variantsOf(
  fleet: Fleet,
  { url }: AskedRequest,
  group: string,
  processes: readonly ProcessView[],
  mostNames: number,
): Promise<Variants> {
  const reported = processes.flatMap(({ flights, hotKeys, recent }) =>
    [...flights, ...hotKeys, ...recent].map(({ id }) => id),
  )
  const keys = new Set([...reported, ...(await scanned(fleet, group, mostNames))])
  const ours = [...keys].filter((key) => key !== group && groupOf(key) === group)
  const texts = ours.filter((key) => !isHash(key))
  const hashes = new Set(texts.map((key) => `${group}\0#${hashOf(key)}`))
  const hashed = ours.filter((key) => isHash(key) && !hashes.has(key))
  const read = async (some: readonly string[]) => {
    const records = some.slice(0, MOST_NAMED).map((key) => readRecord(fleet, key))
    return (await Promise.all(records)).filter(({ info }) => info?.frame !== undefined)
  }
  const { pathname } = new URL(url)
  const custom = await read([...keys].filter((key) => key.startsWith('http:key ')))
  const ofPath = custom.filter(({ facts }) => facts?.path === pathname)
  return {
    named: await read(texts),
    unnamed: (await read(hashed)).length,
    customKeys: [...new Set(ofPath.map(({ key }) => shownKey(key)))],
  }
}

/** The variant that a process looks up for the request once it knows `Vary` of the responses. */
export function learnedVariant(request: AskedRequest, { named }: Variants): RecordView | undefined {
  return named.find(({ key }) => {
    const vary = variantParts(key).filter(({ kind }) => kind === 'vary')
    // No field has this value. So the key gets the request's own values of all these fields.
    const other = vary.map(({ name }) => [name, '\0'] as const)
    return requestKey(request, { vary: other }).key === key
  })
}

export function hasAny({ named, unnamed, customKeys }: Variants): boolean {
  return named.length + unnamed + customKeys.length > 0
}

/** The parts of a variant's key, as its request has them. */
function partsOf({ key, facts }: RecordView): string[] {
  // The first response of a URL with `Vary` is under the plain key.
  if (groupOf(key) === key && facts !== undefined)
    return facts.vary.map(([name, value]) => `${name}: ${value ?? '(absent)'}`)
  return variantParts(key).map(({ text }) => text)
}

export function variantText(record: RecordView): string {
  return partsOf(record).join(', ')
}

/** As wide as `stale-if-error`. */
const STATE_WIDTH = 14
const INDENT = ' '.repeat(STATE_WIDTH + 4)

/** The variants as lines for people: a state, then a line for each part of the key. */
export function variantLines({ named, unnamed, customKeys }: Variants): string[] {
  return [
    ...named.flatMap((each) => {
      const [first, ...more] = partsOf(each)
      return [`  ${each.state.padEnd(STATE_WIDTH)}  ${first}`, ...more.map((part) => INDENT + part)]
    }),
    ...(unnamed > 0 ? [`  ${count(unnamed, 'variant')} that no report names`] : []),
    ...customKeys.map((key) => `  under the option key: ${key}`),
  ]
}

export function asJsonVariants({ named, unnamed, customKeys }: Variants): object {
  const texts = named.map((each) => {
    const parts = partsOf(each)
    return { internalKey: each.key, state: each.state, parts, text: parts.join(', ') }
  })
  return { named: texts, unnamed, customKeys }
}

/** The records that decide about a request. */
export interface Found {
  /** The record of the plain key, and that of the variant if there is one. */
  readonly records: readonly RecordView[]
  /** The last of `records`. */
  readonly record: RecordView
  /** Looked for only if `record` has no entry. */
  readonly variants: Variants | undefined
}

/** Looks for the URL as written first, because clients may send it otherwise than browsers. */
export async function lookFor(
  ...[fleet, request, processes, mostNames]: Parameters<typeof lookForOne>
): Promise<Found> {
  const written = { ...request, asWritten: true }
  if (requestKey(written).key !== requestKey(request).key) {
    const found = await lookForOne(fleet, written, processes, mostNames)
    if (found.variants === undefined || hasAny(found.variants)) return found
  }
  return lookForOne(fleet, request, processes, mostNames)
}

async function lookForOne(
  fleet: Fleet,
  request: AskedRequest,
  processes: readonly ProcessView[],
  mostNames: number,
): Promise<Found> {
  const plain = await readRecord(fleet, requestKey(request).key)
  // If `Vary` of the entry is for other requests, the request has a key of its own.
  const { key } = requestKey(request, plain.facts)
  const record = key === plain.key ? plain : await readRecord(fleet, key)
  const records = record === plain ? [plain] : [plain, record]
  if (record.state !== 'none') return { records, record, variants: undefined }
  const group = groupOf(key)
  const found = await variantsOf(fleet, request, group, processes, mostNames)
  const learned = learnedVariant(request, found)
  if (learned !== undefined)
    return { records: [...records, learned], record: learned, variants: undefined }
  const first = plain.facts && plain.key === group ? [plain] : []
  return { records, record, variants: { ...found, named: [...first, ...found.named] } }
}

const isHash = (key: string): boolean => /\0[#~]/.test(key)

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('base64url')
}

/** The keys of the group, and those of the option `key`. */
async function scanned({ store }: Fleet, group: string, most: number): Promise<string[]> {
  const found: string[] = []
  let cursor = ''
  for (let names = 0; names < most; names += PAGE) {
    // The user may not run SCAN.
    const page = await store.operator.scan('cache', cursor, PAGE).catch(() => undefined)
    if (page === undefined) return found
    for (const key of page.keys)
      if (groupOf(key) === group || key.startsWith('http:key ')) found.push(key)
    cursor = page.cursor
    if (cursor === '') return found
  }
  return found
}
