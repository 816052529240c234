// Header fields as Node holds them and as core wants them. It reads both shapes, and puts a
// HeaderList on a response without overwriting fields of middlewares further out.

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'

/** Lower-case name → its values, one per line. */
export type FieldMap = ReadonlyMap<string, readonly string[]>

/** A copy: later changes to the response do not show in it. */
export function fieldsOf(headers: OutgoingHttpHeaders): Map<string, string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) fields.set(name.toLowerCase(), [value].flat().map(String))
  }
  return fields
}

export function toHeaderList(fields: FieldMap): HeaderList {
  return [...fields].flatMap(([name, values]) => values.map((value) => [name, value] as const))
}

/**
 * The date of an answer that is to be kept and says none, to be sent and kept alike. Node would add one of its own, which it reads once
 * a second.
 */
export function missingDate(fields: FieldMap): HeaderList {
  return fields.has('date') ? [] : [['date', new Date().toUTCString()]]
}

/**
 * What a hit replays: the head without the fields that were there, with the same values, before the
 * origin ran (middlewares outside set them anew on each request), and with a date.
 */
export function storedHead(status: number, fields: FieldMap, outer: FieldMap): CapturedHead {
  const own = [...fields].filter(([name, values]) => !sameValues(values, outer.get(name)))
  const headers = toHeaderList(new Map(own))
  if (fields.has('date')) return { status, headers }
  return { status, headers: [...headers, ['date', new Date().toUTCString()]] }
}

function sameValues(a: readonly string[], b: readonly string[] | undefined): boolean {
  return b !== undefined && a.length === b.length && a.every((value, i) => value === b[i])
}

/** Repeated names become one array, as setHeader wants them. */
export function groupFields(list: HeaderList): Map<string, string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of list) {
    const values = fields.get(name)
    if (values === undefined) fields.set(name, [value])
    else values.push(value)
  }
  return fields
}

/**
 * Sets each field. `Cache-Status` is appended to the members already there (RFC 9211 §2), `Vary` is
 * merged with what outer middlewares set; every other field replaces its predecessor.
 */
export function applyFields(res: ServerResponse, list: HeaderList): void {
  for (const [name, values] of groupFields(list)) {
    res.setHeader(name, combine(name, res.getHeader(name), values))
  }
}

/** RFC 9110 §7.7: tells compressors further out to leave the body as it is. */
export function forbidTransform(res: ServerResponse): void {
  const said = [res.getHeader('cache-control') ?? []].flat().join(', ')
  if (/no-transform/i.test(said)) return
  res.setHeader('cache-control', said === '' ? 'no-transform' : `${said}, no-transform`)
}

/** The value a field gets when `values` come on top of `present`. */
export function combine(
  name: string,
  present: number | string | readonly string[] | undefined,
  values: readonly string[],
): string | string[] {
  if (present !== undefined && name === 'cache-status')
    return [present, ...values].flat().join(', ')
  if (present !== undefined && name === 'vary') return mergeVary([present, ...values].flat())
  return values.length === 1 ? values.join() : [...values]
}

function mergeVary(lines: ReadonlyArray<number | string>): string {
  const names = new Map<string, string>()
  for (const name of lines.join(',').split(',')) {
    const trimmed = name.trim()
    if (trimmed !== '' && !names.has(trimmed.toLowerCase()))
      names.set(trimmed.toLowerCase(), trimmed)
  }
  return names.has('*') ? '*' : [...names.values()].join(', ')
}

/** Takes every field off, and puts back what was there at the time of `fields`. */
export function restoreFields(res: ServerResponse, fields: FieldMap): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name)
  for (const [name, values] of fields) {
    res.setHeader(name, values.length === 1 ? values.join() : [...values])
  }
}
