// Header fields of a response, and those passed to writeHead.
//
// The argument forms of writeHead are (status), (status, message), (status, headers) and (status,
// message, headers), where headers are an object, a flat array or an array of pairs. Fields in the
// arguments are set on the response first, so that all fields are in one place.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { watchCalls } from './original-methods.ts'

/**
 * A copy of the fields, with lower-case names. Later changes to the response do not change the
 * copy.
 */
export function fieldsOf(res: ServerResponse): Array<readonly [string, string]> {
  const fields: Array<readonly [string, string]> = []
  // getHeaders() would make an object that V8 stores as a dictionary.
  for (const name of res.getHeaderNames()) {
    const value = res.getHeader(name)
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
  if (list.length < 2 || (list.length === 2 && list[0]?.[0] !== list[1]?.[0])) {
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

const KEEPS_REPEATED = Number(process.versions.node.split('.', 1)[0]) >= 22

/**
 * Sets the fields in the arguments of writeHead on the response, and returns the other arguments.
 * Node does so itself if the response already has a field.
 */
export function setPassedFields(res: ServerResponse, args: readonly unknown[]): readonly unknown[] {
  const index = typeof args[1] === 'string' || (args[2] ?? null) !== null ? 2 : 1
  const passed = args[index]
  if (typeof passed !== 'object' || passed === null) return args
  // If the response has fields, Node 20 sets those of an array one by one, so only the last one of
  // a repeated name stays.
  const keepsAll = KEEPS_REPEATED || res.getHeaderNames().length === 0
  const fields = new Map<string, [name: unknown, value: unknown]>()
  for (const [name, value] of pairsOf(passed)) {
    const key = String(name).toLowerCase()
    const same = keepsAll ? fields.get(key) : undefined
    fields.set(key, same === undefined ? [name, value] : [same[0], [same[1], value].flat()])
  }
  for (const [name, value] of fields.values()) res.setHeader(name as string, value as string)
  return args.slice(0, index)
}

function pairsOf(passed: object): ReadonlyArray<readonly [unknown, unknown]> {
  if (!Array.isArray(passed)) return Object.entries(passed)
  if (Array.isArray(passed[0])) return passed
  return passed.flatMap((name, i) => (i % 2 === 0 ? [[name, passed[i + 1]] as const] : []))
}

/** The head of a response that has all its fields. */
export function headOf(res: ServerResponse, status: number = res.statusCode): CapturedHead {
  return { status, headers: fieldsOf(res) }
}

/** Removes the fields named in `remove` (lower-case), and sets those of `add`. */
export function editFields(res: ServerResponse, add: HeaderList, remove: readonly string[]): void {
  for (const name of remove) if (res.hasHeader(name)) res.removeHeader(name)
  applyFields(res, add)
}

/** Sets another status, with its own reason phrase, and returns the arguments for writeHead. */
export function withStatus(res: ServerResponse, status: number): readonly unknown[] {
  clearReason(res)
  // Another layer may write the head later from this property.
  res.statusCode = status
  return [status]
}

/**
 * Resets the reason phrase to that of the status. HTTP/2 has none, and Node warns if one is set.
 */
export function clearReason(res: ServerResponse): void {
  if (!isHttp2(res)) res.statusMessage = ''
}

// The fields of layers in front

const OUTER: unique symbol = Symbol('stampede.outer')

type Response = ServerResponse & { [OUTER]?: OuterFields }

/**
 * Fields that layers in front have set before the handler runs. Entries do not have them, because
 * these layers set them for each request. A field that the handler has set too is its own, even
 * with the same value: a layer may have set it for one request only.
 */
export class OuterFields {
  readonly list: HeaderList
  /** Names that the framework copies to the response itself, so that a copy tells nothing. */
  copied: ReadonlySet<string> | undefined
  /** The lines of each field that the handler has not set. */
  readonly #left = new Map<string, string>()

  /** Create it before the handler runs. */
  constructor(res: Response) {
    this.list = fieldsOf(res)
    if (this.list.length === 0) return
    for (const [name] of this.list) this.#left.set(name, linesOf(this.list, name))
    res[OUTER] = this
    const set = this.set.bind(this)
    watchCalls(res, 'setHeader', set)
    // HTTP/2 responses of older versions of Node have no appendHeader.
    watchCalls(res, 'appendHeader', set)
  }

  /** Returns the fields of a response that has some. */
  static of(res: Response): OuterFields | undefined {
    return res[OUTER]
  }

  /** The handler has set this field on the response of Node. */
  set(name: unknown): void {
    const key = String(name).toLowerCase()
    if (!this.copied?.has(key)) this.#left.delete(key)
  }

  /** The handler has set this field on an object of the framework. */
  setBy(name: string): void {
    this.#left.delete(name.toLowerCase())
  }

  /**
   * The head that a hit replays: with a date, and without fields of layers in front. `known` is the
   * missing date, if the caller has it already.
   */
  storedHead(status: number, fields: HeaderList, known?: HeaderList): CapturedHead {
    const date = known ?? missingDate(fields)
    const left = this.#left
    const isOwn = ([name]: HeaderList[number]): boolean =>
      !left.has(name) || left.get(name) !== linesOf(fields, name)
    const own = left.size === 0 ? fields : fields.filter(isOwn)
    return { status, headers: date.length === 0 ? own : [...own, ...date] }
  }
}

function linesOf(fields: HeaderList, name: string): string {
  let lines = ''
  for (const [key, value] of fields) if (key === name) lines += `${value}\n`
  return lines
}
