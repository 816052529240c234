// Header fields of a response, and those passed to writeHead.
//
// The argument forms of writeHead are (status), (status, message), (status, headers) and (status,
// message, headers), where headers are an object, a flat array or an array of pairs. Fields in the
// arguments are set on the response first, so that all fields are in one place while this package
// reads and edits them.

import { type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http'
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

let dateField: HeaderList = NONE
let dateSecond = Number.NaN

/**
 * A Date field, if the response has none. Without this field, Node would add its own Date to the
 * sent response, and the stored response could have another one. It is formatted once a second.
 */
export function missingDate(fields: HeaderList): HeaderList {
  if (hasField(fields, 'date')) return NONE
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateField = [['date', new Date(second * 1000).toUTCString()]]
  }
  return dateField
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
 * Removes the fields named in `remove` (lower-case), and sets those of `add`. The value of
 * `Cache-Status` is added after the members that the response already has (RFC 9211 §2). `Vary` is
 * merged with the field of outer middlewares. Any other field replaces the field of the same name.
 */
export function editFields(res: ServerResponse, add: HeaderList, remove: readonly string[]): void {
  for (const name of remove) if (res.hasHeader(name)) res.removeHeader(name)
  // A miss adds one or two fields. Grouping them would cost more than setting them.
  if (add.length < 2 || (add.length === 2 && add[0]?.[0] !== add[1]?.[0])) {
    for (const [name, value] of add)
      res.setHeader(name, combine(name, res.getHeader(name), [value]))
    return
  }
  for (const [name, values] of groupFields(add))
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

/** Node 20 sets the fields of an array one by one, so the last one of a repeated name stays. */
const APPENDS_LISTS = Number(process.versions.node.split('.', 1)[0]) >= 22

type Arguments = readonly unknown[]

/**
 * Sets the fields in the arguments of writeHead on the response, with the result that they would
 * have in Node. False: Node will refuse this head. Then call the original writeHead with the same
 * arguments, so that Node throws its error, and leaves the response as it does alone.
 */
export function setPassedFields(res: ServerResponse, args: Arguments): boolean {
  const overHttp2 = isHttp2(res)
  const status = Number(args[0] ?? (overHttp2 ? 200 : 0)) | 0
  if (overHttp2 ? status < 200 || status > 599 : status < 100 || status > 999) return false
  if (args.length < 2) return true
  try {
    if (!overHttp2 && typeof args[1] === 'string') validateHeaderValue('reason', args[1])
    const passed = passedIn(args)
    if (passed !== undefined) setFields(res, passed, overHttp2)
    return true
  } catch {
    return false
  }
}

/** Throws if Node refuses a field. */
function setFields(res: ServerResponse, passed: object, overHttp2: boolean): void {
  const isBare = !overHttp2 && res.getHeaderNames().length === 0
  const pairs = pairsOf(passed, isBare || overHttp2)
  const appends = isBare || (Array.isArray(passed) && (overHttp2 || APPENDS_LISTS))
  for (const [name, value] of pairs) {
    // If a field of a bare response is invalid, Node sets none of them.
    if (isBare) validateField(name, value)
    else if (appends) res.removeHeader(name)
  }
  for (const [name, value] of pairs) {
    if (!name && !overHttp2) continue
    // appendHeader() would append to the array of the app.
    if (appends) res.appendHeader(name, Array.isArray(value) ? [...value] : value)
    else res.setHeader(name, value)
  }
}

function validateField(name: string, value: Passed[1]): void {
  validateHeaderName(name)
  for (const line of Array.isArray(value) ? value : [value]) validateHeaderValue(name, line)
}

/**
 * The arguments for the writeHead below, after the fields in `args` were set on the response. A
 * layer that wraps Node's method may read or change passed fields, so it gets them as an object.
 */
export function argsBelow(res: ServerResponse, isLast: boolean, args: Arguments): Arguments {
  if (args.length < 2) return args
  const passed = passedIn(args)
  const rest = args.slice(0, typeof args[1] === 'string' ? 2 : 1)
  if (passed === undefined || isLast) return rest
  const fields: Record<string, unknown> = {}
  for (const [name] of pairsOf(passed, true)) {
    const value = res.getHeader(name)
    if (value !== undefined) fields[name] = value
    // If the layer deletes the field from the object, the field must not be sent.
    res.removeHeader(name)
  }
  return [...rest, fields]
}

/** As the app passes them, so they may have any type. */
type Passed = readonly [name: string, value: string | readonly string[]]

function pairsOf(passed: object, mayBePairs: boolean): readonly Passed[] {
  if (!Array.isArray(passed)) return Object.entries(passed)
  if (mayBePairs && Array.isArray(passed[0])) return passed
  // The last name has no value, so this throws.
  if (passed.length % 2 !== 0) validateField(passed.at(-1), undefined as never)
  return passed.flatMap((name, i) => (i % 2 === 0 ? [[name, passed[i + 1]] as const] : []))
}

/** The fields in the arguments of writeHead. */
export function passedIn(args: Arguments): object | undefined {
  const passed = typeof args[1] === 'string' ? args[2] : (args[2] ?? args[1])
  return typeof passed === 'object' && passed !== null ? passed : undefined
}

/** The head of a response that has all its fields. */
export function headOf(res: ServerResponse, status: number = res.statusCode): CapturedHead {
  return { status, headers: fieldsOf(res) }
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
