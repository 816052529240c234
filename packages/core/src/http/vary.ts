// Which request headers a response was chosen by, and whether another request chooses the same.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValues, type RequestHeaders, requestField, trimOws } from './headers.ts'

/** Pairs of request field and normalised value; `null` when the field was absent. */
export type Selection = ReadonlyArray<readonly [name: string, value: string | null]>

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

/** RFC 9110 §12.5.5: lower-case, sorted, once each; `*` if any member is, or is no field name. */
export function varyNames(headers: HeaderList): readonly string[] | '*' {
  const names = new Set<string>()
  for (const line of headerValues(headers, 'vary')) {
    for (const member of line.split(',')) {
      const name = trimOws(member).toLowerCase()
      if (name === '') continue
      if (name === '*' || !FIELD_NAME.test(name)) return '*'
      names.add(name)
    }
  }
  return [...names].sort()
}

/** RFC 9111 §4.1: one spelling for values of the same meaning; unknown fields are hardly touched. */
export function normaliseField(name: string, value: string): string {
  if (name === 'accept-encoding') return FREQUENT_CODINGS.get(value) ?? normaliseCodings(value)
  if (name === 'accept-language') return normaliseLanguages(value)
  return normaliseList(value)
}

/** RFC 9111 §4.1: the values this request selects a response by. */
export function selectFields(
  names: readonly string[],
  headers: RequestHeaders,
): Array<[name: string, value: string | null]> {
  return names.map((name) => [name, selectField(name, headers)])
}

/** RFC 9111 §4.1: whether a stored response may be selected; an absent field matches only an absent one. */
export function sameSelection(vary: Selection, headers: RequestHeaders): boolean {
  return vary.every(([name, value]) => selectField(name, headers) === value)
}

function selectField(name: string, headers: RequestHeaders): string | null {
  const value = requestField(headers, name)
  return value === undefined ? null : normaliseField(name, value)
}

/** Space around commas, unless a quoted string might contain it. */
function normaliseList(value: string): string {
  if (value.includes('"') || !value.includes(',')) return value
  return value.split(',').map(trimOws).join(', ')
}

const CODING = /^([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/** RFC 9110 §12.5.3: the codings a client takes, sorted. Its preferences among them are dropped. */
function normaliseCodings(value: string): string {
  const taken = new Set<string>()
  const refused = new Set<string>()
  for (const member of value.split(',')) {
    const text = trimOws(member).toLowerCase()
    if (text === '') continue
    const [, coding, weight] = CODING.exec(text) ?? []
    if (coding === undefined) return normaliseList(value)
    const codings = Number(weight ?? 1) === 0 ? refused : taken
    codings.add(coding)
  }
  // Contradictions are decided by each negotiator in its own way.
  for (const coding of refused) if (taken.has(coding)) return normaliseList(value)
  const members = [...taken].sort()
  for (const coding of [...refused].sort()) {
    // What was not named is refused anyway, but for `identity`, and all of it after `*`.
    if (coding === 'identity' || coding === '*' || taken.has('*')) members.push(`${coding};q=0`)
  }
  return members.join(', ')
}

/** RFC 9110 §12.5.4: language ranges have no case, and space around `,` and `;` no meaning. */
function normaliseLanguages(value: string): string {
  const range = (member: string) => member.split(';').map(trimOws).join(';')
  return value.toLowerCase().split(',').map(range).join(', ')
}

/** What browsers and common clients send, looked up instead of taken apart for each request. */
const FREQUENT_CODINGS: ReadonlyMap<string, string> = new Map(
  [
    'gzip, deflate, br, zstd',
    'gzip, deflate, br',
    'br, gzip, deflate',
    'gzip, deflate',
    'gzip, br',
    'gzip',
  ].map((value) => [value, normaliseCodings(value)]),
)
