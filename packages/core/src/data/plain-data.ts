// Copies of plain data, and the check for values that JSON would change silently: a Map becomes {},
// a method disappears. The error names the path of the member.

import { StampedeError, valueError } from '../errors.ts'

/** The copy stops at this depth. Deeper values and cycles get the check. */
const DEEPEST = 32

/**
 * A frozen copy of plain data: what `JSON.parse` would return for its JSON, at a quarter of the
 * cost. Undefined for any other value, which `checkPlainData` is for.
 */
export function frozenCopy(value: unknown, depth: number = DEEPEST): unknown {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value
  // As JSON has it: -0 becomes 0, and a number that is not finite becomes null.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : null
  if (typeof value !== 'object' || depth === 0 || !isPlain(value) || hasToJson(value))
    return undefined
  if (Array.isArray(value)) {
    // With its final length: an array that grows by `push` reserves room for 16 elements.
    const copy = new Array<unknown>(value.length)
    for (let i = 0; i < copy.length; i++) {
      const member: unknown = value[i]
      const own = member === undefined ? null : frozenCopy(member, depth - 1)
      if (own === undefined) return undefined
      copy[i] = own
    }
    return Object.freeze(copy)
  }
  const copy: Record<string, unknown> = {}
  // A list of all names would take a quarter of the memory of the copy.
  for (const name in value) {
    if (!Object.hasOwn(value, name)) continue
    const member: unknown = (value as Record<string, unknown>)[name]
    if (member === undefined) continue
    const own = name === '__proto__' ? undefined : frozenCopy(member, depth - 1)
    if (own === undefined) return undefined
    copy[name] = own
  }
  return Object.freeze(copy)
}

/**
 * Throws `ERR_STAMPEDE_VALUE`. Allows any object with `toJSON()`, and members that are undefined.
 */
export function checkPlainData(where: string, root: unknown): void {
  // The containers around the member that is visited, from the value itself, and their names.
  const containers: unknown[] = []
  const names: Array<string | number> = []
  const fail = (problem: string): never => {
    const path = names.map(stepOf).join('')
    throw valueError(where, path === '' ? problem : `value${path}: ${problem}`)
  }
  function visit(this: unknown, key: string): unknown {
    while (containers.length > 0 && containers.at(-1) !== this) {
      containers.pop()
      names.pop()
    }
    const isRoot = containers.length === 0
    const member: unknown = isRoot ? root : (this as Record<string, unknown>)[key]
    if (!isRoot) names.push(Array.isArray(this) ? Number(key) : key)
    if (containers.includes(member)) fail('JSON cannot represent a cycle; leave it out')
    const problem = isRoot || member !== undefined ? problemOf(member) : undefined
    if (problem !== undefined) fail(problem)
    if (isContainer(member)) {
      containers.push(member)
      return member
    }
    if (!isRoot) names.pop()
    return null
  }
  try {
    JSON.stringify(root, visit)
  } catch (error) {
    // Nested too deep for the call stack. The encoder fails for that reason too, and reports it.
    if (error instanceof StampedeError) throw error
  }
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !hasToJson(value)
}

function problemOf(value: unknown): string | undefined {
  switch (typeof value) {
    case 'undefined':
      return 'undefined was returned, which JSON cannot represent; return null'
    case 'function':
      return 'JSON cannot represent a function; call it, or leave it out'
    case 'symbol':
      return 'JSON cannot represent a symbol; use a string'
    case 'bigint':
      return hasToJson(value) ? undefined : 'JSON cannot represent a bigint; use a string'
    case 'object':
      return isContainer(value) && !isPlain(value) ? instanceProblem(value) : undefined
  }
  return undefined
}

/** Whether the value is an array or an object without a class. It may come from another realm. */
function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function instanceProblem(value: object): string {
  const name = value.constructor?.name || 'a class'
  if (value instanceof Map) return 'a Map would become {}; use Object.fromEntries(map)'
  if (value instanceof Set) return 'a Set would become {}; use [...set]'
  if (value instanceof Uint8Array)
    return 'bytes inside a value would become {}; use base64, or a serializer'
  return `an instance of ${name} would lose its class; use plain data, give it a toJSON(), or use a serializer`
}

function hasToJson(value: object | bigint): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

/** One step of the path in an error, such as `value.list[3].name`. */
function stepOf(name: string | number): string {
  if (typeof name === 'number') return `[${name}]`
  const isPlainName = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)
  return isPlainName ? `.${name}` : `[${JSON.stringify(name)}]`
}
