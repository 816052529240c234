// Header fields of a response: reads and edits those of Node and those passed to writeHead.
//
// The argument forms of writeHead are (status), (status, message), (status, headers) and (status,
// message, headers), where headers are an object, a flat array or an array of pairs. getHeaders()
// does not have headers that were passed only to writeHead. If setHeader was called before, Node 20
// drops repeated names of an array. So headers are read from the arguments, and edited in a copy of
// the arguments.

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList, PartOfBody } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'

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
  for (const [key] of fields) if (key === name) return true
  return false
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
  // A miss adds one or two fields. Grouping them would cost more than setting them.
  if (list.length <= 2 && list[0]?.[0] !== list[1]?.[0]) {
    for (const [name, value] of list)
      res.setHeader(name, combine(name, res.getHeader(name), [value]))
    return
  }
  for (const [name, values] of groupFields(list))
    res.setHeader(name, combine(name, res.getHeader(name), values))
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
function combine(
  name: string,
  present: number | string | readonly string[] | undefined,
  values: readonly string[],
): string | string[] {
  if (present !== undefined && name === 'cache-status')
    return [present, ...values].flat().join(', ')
  if (present !== undefined && name === 'vary') return mergeVary([present, ...values].flat())
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
    res.setHeader(name, combine(name, undefined, values))
  }
}

/** The index of the argument from which Node takes the headers. */
function headersIndex(args: readonly unknown[]): 1 | 2 {
  return typeof args[1] === 'string' || (args[2] !== undefined && args[2] !== null) ? 2 : 1
}

const KEEPS_REPEATED = Number(process.versions.node.split('.', 1)[0]) >= 22

/**
 * All fields that the head will have. Fields in the arguments replace fields that were set before.
 */
export function readWriteHead(res: ServerResponse, args: readonly unknown[]): CapturedHead {
  const status = Number(args[0])
  const set = fieldsOf(res.getHeaders())
  const argument = args[headersIndex(args)]
  if (typeof argument !== 'object' || argument === null) return { status, headers: set }
  // If fields were set before, Node 20 sets the fields of an array one by one, so only the last one
  // of a repeated name stays.
  const passed = fieldsOfArgument(argument, !KEEPS_REPEATED && set.length > 0)
  const fields = groupFields(set)
  for (const [name, values] of passed) fields.set(name, values)
  const headers = [...fields].flatMap(([name, values]) =>
    values.map((value) => [name, value] as const),
  )
  return { status, headers }
}

/** The names of the fields in the arguments. */
export function namesPassed(args: readonly unknown[]): readonly string[] {
  const passed = args[headersIndex(args)]
  return passed instanceof Object ? pairsOf(passed).map(([name]) => String(name)) : []
}

function fieldsOfArgument(passed: object, oneByOne: boolean): Map<string, string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of pairsOf(passed)) {
    const key = String(name).toLowerCase()
    const values = [value].flat().map(String)
    fields.set(key, oneByOne ? values : [...(fields.get(key) ?? []), ...values])
  }
  return fields
}

function pairsOf(passed: object): ReadonlyArray<readonly [unknown, unknown]> {
  if (!Array.isArray(passed)) return Object.entries(passed)
  if (Array.isArray(passed[0])) return passed
  return passed.flatMap((name, i) => (i % 2 === 0 ? [[name, passed[i + 1]] as const] : []))
}

/**
 * Returns the arguments with the fields of `add`, and without the fields named in `remove`
 * (lower-case). The fields in `remove` are also removed from `res`. Where setting fields on `res`
 * has the same effect, the fields of `add` are set there instead.
 */
export function editWriteHead(
  res: ServerResponse,
  args: readonly unknown[],
  add: HeaderList,
  remove: readonly string[],
): readonly unknown[] {
  for (const name of remove) if (res.hasHeader(name)) res.removeHeader(name)
  const index = headersIndex(args)
  const passed = args[index]
  if (typeof passed !== 'object' || passed === null) {
    if (add.length > 0) applyFields(res, add)
    return args
  }
  const left = without(passed, remove)
  const isBare = add.length > 0 && res.getHeaderNames().length === 0
  if (!isBare && add.length > 0) applyFields(res, add)
  const edited = isBare ? withAdded(left, add) : left
  return edited === passed ? args : args.with(index, edited)
}

function without(passed: object, names: readonly string[]): object {
  const pairs = pairsOf(passed)
  const left = pairs.filter(([name]) => !names.includes(String(name).toLowerCase()))
  if (left.length === pairs.length) return passed
  if (!Array.isArray(passed)) return Object.fromEntries(left)
  return Array.isArray(passed[0]) ? left : left.flat()
}

function withAdded(passed: object, add: HeaderList): object {
  if (Array.isArray(passed)) return [...passed, ...(Array.isArray(passed[0]) ? add : add.flat())]
  const copy: Record<string, unknown> = { ...passed }
  for (const [name, values] of groupFields(add)) {
    const same = Object.keys(copy).find((key) => key.toLowerCase() === name)
    const present = same === undefined ? undefined : String(copy[same])
    copy[same ?? name] = combine(name, present, values)
  }
  return copy
}

/** The arguments for writeHead that turn the handler's head into that of a partial response. */
export function headOfPart(
  res: ServerResponse,
  args: readonly unknown[],
  { status, fields }: PartOfBody,
  add: HeaderList,
  remove: readonly string[],
): readonly unknown[] {
  const replaced = fields.map(([name]) => name)
  const edited = editWriteHead(res, args, [...add, ...fields], [...remove, ...replaced])
  return withStatus(res, status, edited.slice(1))
}

/** The arguments with another status, which has its own reason phrase. */
export function withStatus(
  res: ServerResponse,
  status: number,
  args: readonly unknown[],
): readonly unknown[] {
  clearReason(res)
  // Another layer may write the head later from this property.
  res.statusCode = status
  return [status, ...args.filter((arg) => typeof arg !== 'string')]
}

/**
 * Resets the reason phrase to that of the status. HTTP/2 has none, and Node warns if one is set.
 */
export function clearReason(res: ServerResponse): void {
  if (!isHttp2(res)) res.statusMessage = ''
}
