// Vary: the request fields that select a response, and whether another request selects the same
// one.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValues, type RequestHeaders, requestField, trimOws } from './headers.ts'

/** Pairs of a request field and its normalised value, which is `null` if the field is absent. */
export type Selection = ReadonlyArray<readonly [name: string, value: string | null]>

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

/**
 * RFC 9110 §12.5.5: the names in Vary, lower-case and sorted, without repeats. `*` if a member is
 * `*` or not a valid field name.
 */
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

/**
 * RFC 9111 §4.1: one spelling for values with the same meaning. For a field that is not known here,
 * only space around commas is normalised.
 */
export function normaliseField(name: string, value: string): string {
  if (name === 'accept-encoding') return FREQUENT_CODINGS.get(value) ?? normaliseCodings(value)
  if (name === 'accept-language') return normaliseLanguages(value)
  return normaliseList(value)
}

/** RFC 9111 §4.1: the values by which this request selects a response. */
export function selectFields(
  names: readonly string[],
  headers: RequestHeaders,
): Array<[name: string, value: string | null]> {
  return names.map((name) => [name, selectField(name, headers)])
}

/**
 * RFC 9111 §4.1: whether the request selects a stored response. An absent field matches only an
 * absent one.
 */
export function sameSelection(vary: Selection, headers: RequestHeaders): boolean {
  return vary.every(([name, value]) => selectField(name, headers) === value)
}

function selectField(name: string, headers: RequestHeaders): string | null {
  const value = requestField(headers, name)
  return value === undefined ? null : normaliseField(name, value)
}

/** Normalises space around commas, unless a quoted string may contain the comma. */
function normaliseList(value: string): string {
  if (value.includes('"') || !value.includes(',')) return value
  return value.split(',').map(trimOws).join(', ')
}

const CODING = /^([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/** RFC 9110 §12.5.3: the codings that a client accepts, sorted. Its preferences are dropped. */
function normaliseCodings(value: string): string {
  const accepted = new Set<string>()
  const refused = new Set<string>()
  for (const member of value.split(',')) {
    const text = trimOws(member).toLowerCase()
    if (text === '') continue
    const [, coding, weight] = CODING.exec(text) ?? []
    if (coding === undefined) return normaliseList(value)
    const codings = Number(weight ?? 1) === 0 ? refused : accepted
    codings.add(coding)
  }
  // A value that accepts and refuses one coding is not normalised: handlers disagree about it.
  for (const coding of refused) if (accepted.has(coding)) return normaliseList(value)
  const members = [...accepted].sort()
  for (const coding of [...refused].sort()) {
    // A refusal (`q=0`) matters only for `identity` and `*`, or beside an accepted `*`. Any other
    // coding is refused unless the field accepts it.
    if (coding === 'identity' || coding === '*' || accepted.has('*')) members.push(`${coding};q=0`)
  }
  return members.join(', ')
}

/** RFC 9110 §12.5.4: case in language ranges and space around `,` and `;` do not matter. */
function normaliseLanguages(value: string): string {
  const range = (member: string) => member.split(';').map(trimOws).join(';')
  return value.toLowerCase().split(',').map(range).join(', ')
}

/** Values of browsers and common clients, normalised once instead of for each request. */
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
