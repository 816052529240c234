// Header fields as Node holds them and as core wants them. It reads both shapes, and puts a
// HeaderList on a response without overwriting fields of middlewares further out.

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'

/** A copy: later changes to the response do not show in it. Names are lower-case. */
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

/**
 * The date of an answer that is to be kept and says none, to be sent and kept alike. Node would add one of its own, which it reads once
 * a second.
 */
export function missingDate(fields: HeaderList): HeaderList {
  return hasField(fields, 'date') ? [] : [['date', new Date().toUTCString()]]
}

/**
 * What a hit replays: the head without the fields that were there, with the same values, before the
 * origin ran (middlewares outside set them anew on each request), and with a date.
 */
export function storedHead(status: number, fields: HeaderList, outer: HeaderList): CapturedHead {
  const own = fields.filter(([name]) => !isSame(name, fields, outer))
  return { status, headers: [...own, ...missingDate(fields)] }
}

function isSame(name: string, fields: HeaderList, outer: HeaderList): boolean {
  const before = valuesOf(outer, name)
  if (before.length === 0) return false
  const now = valuesOf(fields, name)
  return before.length === now.length && before.every((value, i) => value === now[i])
}

function valuesOf(fields: HeaderList, name: string): string[] {
  return fields.filter(([key]) => key === name).map(([, value]) => value)
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
export function restoreFields(res: ServerResponse, fields: HeaderList): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name)
  for (const [name, values] of groupFields(fields)) {
    res.setHeader(name, values.length === 1 ? values.join() : [...values])
  }
}
