// Converts header fields between Node's shape and core's HeaderList. Puts a HeaderList on a
// response without overwriting fields of outer middlewares.

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { HeaderList } from '@stampede/core/adapter'

/**
 * A copy of the fields, with lower-case names. Later changes to the response do not change the
 * copy.
 */
export function fieldsOf(headers: OutgoingHttpHeaders): Array<readonly [string, string]> {
  const fields: Array<readonly [string, string]> = []
  for (const name in headers) {
    const value = headers[name]
    if (Array.isArray(value)) for (const line of value) fields.push([name, String(line)])
    else if (value !== undefined) fields.push([name, String(value)])
  }
  return fields
}

export function hasField(fields: HeaderList, name: string): boolean {
  return fields.some(([key]) => key === name)
}

const NONE: HeaderList = []

let dateText = ''
let dateSecond = Number.NaN

/** The current date as a field value, formatted once a second. */
function currentDate(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(second * 1000).toUTCString()
  }
  return dateText
}

/**
 * A Date field, if the response has none. Without this field, Node would add its own Date to the
 * sent response, and the stored response could have another one.
 */
export function missingDate(fields: HeaderList): HeaderList {
  return hasField(fields, 'date') ? NONE : [['date', currentDate()]]
}

/** Groups the values of each name, in the form that setHeader expects. */
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
 * Sets each field. The value of `Cache-Status` is added after the members that the response already
 * has (RFC 9211 §2). `Vary` is merged with the field of outer middlewares. Any other field replaces
 * the field of the same name.
 */
export function applyFields(res: ServerResponse, list: HeaderList): void {
  if (list.length === 1) {
    for (const [name, value] of list)
      res.setHeader(name, combine(name, res.getHeader(name), [value]))
    return
  }
  for (const [name, values] of groupFields(list)) {
    res.setHeader(name, combine(name, res.getHeader(name), values))
  }
}

/** Keeps outer compressors from changing the body (RFC 9110 §7.7). */
export function forbidTransform(res: ServerResponse): void {
  const present = [res.getHeader('cache-control') ?? []].flat().join(', ')
  if (/no-transform/i.test(present)) return
  res.setHeader('cache-control', present === '' ? 'no-transform' : `${present}, no-transform`)
}

/**
 * The new value of a field. `Cache-Status` and `Vary` are added to `present`. For any other field,
 * `values` replace `present`.
 */
export function combine(
  name: string,
  present: number | string | readonly string[] | undefined,
  values: readonly string[],
): string | string[] {
  if (present !== undefined && name === 'cache-status')
    return [present, ...values].flat().join(', ')
  if (present !== undefined && name === 'vary') return mergeVary([present, ...values].flat())
  return single(values)
}

/** One value as a string, several as an array. */
function single(values: readonly string[]): string | string[] {
  return values.length === 1 ? (values[0] as string) : [...values]
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

/** Replaces all fields of the response by `fields`. */
export function restoreFields(res: ServerResponse, fields: HeaderList): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name)
  for (const [name, values] of groupFields(fields)) {
    res.setHeader(name, single(values))
  }
}
