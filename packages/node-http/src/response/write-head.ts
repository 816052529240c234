// The argument forms of ServerResponse.writeHead. They are (status), (status, message), (status,
// headers) and (status, message, headers), where headers are an object, a flat array or an array of
// pairs.
//
// getHeaders() does not have headers that were passed only to writeHead. If setHeader was called
// before, Node 20 drops repeated names of an array. So headers are read from the arguments, and
// edited in a copy of the arguments.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { applyFields, combine, fieldsOf, groupFields } from './header-fields.ts'

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
  received: readonly unknown[],
  add: HeaderList,
  remove: readonly string[],
): readonly unknown[] {
  const args = withoutFields(res, received, remove)
  const index = headersIndex(args)
  const passed = args[index]
  if (add.length === 0) return args
  if (typeof passed !== 'object' || passed === null || res.getHeaderNames().length > 0) {
    applyFields(res, add)
    return args
  }
  return args.with(index, withAdded(passed, add))
}

function withoutFields(
  res: ServerResponse,
  args: readonly unknown[],
  names: readonly string[],
): readonly unknown[] {
  for (const name of names) if (res.hasHeader(name)) res.removeHeader(name)
  const index = headersIndex(args)
  const passed = args[index]
  if (typeof passed !== 'object' || passed === null) return args
  const pairs = pairsOf(passed)
  const left = pairs.filter(([name]) => !names.includes(String(name).toLowerCase()))
  if (left.length === pairs.length) return args
  if (!Array.isArray(passed)) return args.with(index, Object.fromEntries(left))
  return args.with(index, Array.isArray(passed[0]) ? left : left.flat())
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

/**
 * Adds the fields of `add` to the head that `res` will send, and removes those in `remove`, for
 * every way to write a head.
 */
export function addAtHead(
  res: ServerResponse,
  add: HeaderList,
  remove: readonly string[] = [],
): void {
  if (add.length === 0 && remove.length === 0) return
  const original = res.writeHead
  let edited = false
  const writeHead = (...args: unknown[]): unknown => {
    if (edited || res.headersSent) return Reflect.apply(original, res, args)
    edited = true
    return Reflect.apply(original, res, editWriteHead(res, args, add, remove))
  }
  Object.assign(res, { writeHead })
}
