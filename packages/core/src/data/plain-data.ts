// Copies of plain data, and the check for values that JSON would change silently: a Map becomes {},
// a method disappears. The error names the path of the member.

import { valueError } from '../errors.ts'

/** A value to check, with its path as a list of parents. */
interface Visit {
  readonly value: unknown
  readonly key: string | number
  readonly parent: Visit | undefined
}

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
  const ancestors = new Set<unknown>()
  // Not recursive, because deep nesting would overflow the call stack. A container stays in
  // `visits` while its members are checked. When it is the last element again, all its members are
  // checked.
  const visits: Visit[] = [{ value: root, key: '', parent: undefined }]
  for (let visit = visits.at(-1); visit !== undefined; visit = visits.at(-1)) {
    const { value } = visit
    if (ancestors.delete(value)) {
      visits.pop()
      continue
    }
    const problem = problemOf(value)
    if (problem !== undefined) throw valueError(where, `${pathOf(visit)}${problem}`)
    if (!isContainer(value)) {
      visits.pop()
      continue
    }
    ancestors.add(value)
    // In reverse order, so that the first problem in the value is found first.
    const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
    for (let i = keys.length - 1; i >= 0; i--) {
      const key = keys[i] as keyof typeof value
      const member: unknown = value[key]
      if (isPrimitive(member)) continue
      if (ancestors.has(member))
        throw valueError(
          where,
          `${pathOf({ value: member, key, parent: visit })}JSON cannot represent a cycle; leave it out`,
        )
      visits.push({ value: member, key, parent: visit })
    }
  }
}

function isPrimitive(value: unknown): boolean {
  const type = typeof value
  return (
    value === null ||
    type === 'string' ||
    type === 'number' ||
    type === 'boolean' ||
    type === 'undefined'
  )
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

/** The path for an error, such as `value.list[3].name: `. Empty for the value itself. */
function pathOf({ key, parent }: Visit): string {
  let path = ''
  for (
    let at: { key: string | number; parent: Visit | undefined } | undefined = { key, parent };
    at?.parent;
    at = at.parent
  ) {
    const step =
      typeof at.key === 'number'
        ? `[${at.key}]`
        : /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(at.key)
          ? `.${at.key}`
          : `[${JSON.stringify(at.key)}]`
    path = step + path
  }
  return path === '' ? '' : `value${path}: `
}
