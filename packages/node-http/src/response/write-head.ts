// The argument forms of ServerResponse.writeHead. They are (status), (status, message), (status,
// headers) and (status, message, headers), where headers are an object, a flat array or an array of
// pairs.
//
// Headers given only to writeHead never show in getHeaders(), and a setHeader beforehand sends Node
// down a path on which an array loses its duplicates (Node 20). So they are read from the arguments,
// and what we add, or take off, changes a copy of them.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { applyFields, combine, fieldsOf, groupFields } from './header-fields.ts'

/** Which argument Node takes the headers from. */
function headersIndex(args: readonly unknown[]): 1 | 2 {
  return typeof args[1] === 'string' || (args[2] !== undefined && args[2] !== null) ? 2 : 1
}

const KEEPS_REPEATED = Number(process.versions.node.split('.', 1)[0]) >= 22

/** Every field the head will have: those set before, and over them those in the arguments. */
export function readWriteHead(res: ServerResponse, args: readonly unknown[]): CapturedHead {
  const status = Number(args[0])
  const set = fieldsOf(res.getHeaders())
  const argument = args[headersIndex(args)]
  if (typeof argument !== 'object' || argument === null) return { status, headers: set }
  // With fields set before, Node 20 sets an array one by one: of a repeated name the last one stays.
  const given = givenFields(argument, !KEEPS_REPEATED && set.length > 0)
  const fields = groupFields(set)
  for (const [name, values] of given) fields.set(name, values)
  const headers = [...fields].flatMap(([name, values]) =>
    values.map((value) => [name, value] as const),
  )
  return { status, headers }
}

function givenFields(given: object, oneByOne: boolean): Map<string, string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of pairsOf(given)) {
    const key = String(name).toLowerCase()
    const values = [value].flat().map(String)
    fields.set(key, oneByOne ? values : [...(fields.get(key) ?? []), ...values])
  }
  return fields
}

function pairsOf(given: object): ReadonlyArray<readonly [unknown, unknown]> {
  if (!Array.isArray(given)) return Object.entries(given)
  if (Array.isArray(given[0])) return given
  return given.flatMap((name, i) => (i % 2 === 0 ? [[name, given[i + 1]] as const] : []))
}

/**
 * The arguments without the fields named in `remove` (lower-case), and with `add` on top; where that is harmless, `add` is
 * set on `res` instead. What was set on `res` is taken off there.
 */
export function editWriteHead(
  res: ServerResponse,
  received: readonly unknown[],
  add: HeaderList,
  remove: readonly string[],
): readonly unknown[] {
  const args = withoutFields(res, received, remove)
  const index = headersIndex(args)
  const given = args[index]
  if (add.length === 0) return args
  if (typeof given !== 'object' || given === null || res.getHeaderNames().length > 0) {
    applyFields(res, add)
    return args
  }
  return args.with(index, withAdded(given, add))
}

function withoutFields(
  res: ServerResponse,
  args: readonly unknown[],
  names: readonly string[],
): readonly unknown[] {
  for (const name of names) if (res.hasHeader(name)) res.removeHeader(name)
  const index = headersIndex(args)
  const given = args[index]
  if (typeof given !== 'object' || given === null) return args
  const pairs = pairsOf(given)
  const left = pairs.filter(([name]) => !names.includes(String(name).toLowerCase()))
  if (left.length === pairs.length) return args
  if (!Array.isArray(given)) return args.with(index, Object.fromEntries(left))
  return args.with(index, Array.isArray(given[0]) ? left : left.flat())
}

function withAdded(given: object, add: HeaderList): object {
  if (Array.isArray(given)) return [...given, ...(Array.isArray(given[0]) ? add : add.flat())]
  const copy: Record<string, unknown> = { ...given }
  for (const [name, values] of groupFields(add)) {
    const same = Object.keys(copy).find((key) => key.toLowerCase() === name)
    const present = same === undefined ? undefined : String(copy[same])
    copy[same ?? name] = combine(name, present, values)
  }
  return copy
}

/** Has `add` put on whatever head `res` will send, and `remove` taken off it, however it is written. */
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
