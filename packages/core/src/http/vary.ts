// Vary: the request fields that select a response, and whether another request selects the same
// one.

import type { HeaderList } from '../ports/exchange.ts'
import { acceptsCoding, normaliseCodings } from './content-coding.ts'
import { type Fields, headerValues, type RequestHeaders, requestField, trimOws } from './headers.ts'

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
  if (name === 'accept-encoding') return normaliseCodings(value) ?? normaliseList(value)
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
 * RFC 9111 §4.1: whether the request selects a stored response, and accepts its content coding.
 * Requests that select it may accept different codings, such as `deflate`.
 */
export function selects(
  { vary, fields = [] }: { readonly vary: Selection; readonly fields?: Fields },
  headers: RequestHeaders,
): boolean {
  if (!vary.every(([name, value]) => selectField(name, headers) === value)) return false
  const accept = requestField(headers, 'accept-encoding')
  if (accept === undefined) return true
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] !== 'content-encoding') continue
    const codings = (fields[i + 1] as string).toLowerCase().split(',').map(trimOws)
    if (!codings.every((name) => isCodingAccepted(accept, name))) return false
  }
  return true
}

/** Parsers disagree about some fields. The key then has the field itself. */
function isCodingAccepted(accept: string, coding: string): boolean {
  return coding === '' || coding === 'identity' || acceptsCoding(accept, coding) !== false
}

function selectField(name: string, headers: RequestHeaders): string | null {
  const value = requestField(headers, name)
  if (value !== undefined) return normaliseField(name, value)
  // Handlers send an uncompressed body without Accept-Encoding, as for `identity`.
  return name === 'accept-encoding' ? '' : null
}

/** Normalises space around commas, unless a quoted string may contain the comma. */
function normaliseList(value: string): string {
  if (value.includes('"') || !value.includes(',')) return value
  return value.split(',').map(trimOws).join(', ')
}

/** RFC 9110 §12.5.4: case in language ranges and space around `,` and `;` do not matter. */
function normaliseLanguages(value: string): string {
  const range = (member: string) => member.split(';').map(trimOws).join(';')
  return value.toLowerCase().split(',').map(range).join(', ')
}
