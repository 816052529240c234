// Refuses values that JSON would change without a word: a Map becomes {}, a method disappears. The error names the path.

import { valueError } from '../errors.ts'

/** A value to look at, with the way to it. */
interface Visit {
  readonly value: unknown
  readonly key: string | number
  readonly parent: Visit | undefined
}

/** Values nested deeper than this are looked at closely, and so is every cycle. */
const DEEPEST = 32

/** Throws `ERR_STAMPEDE_VALUE`. An object with `toJSON()` decides for itself, and members that are undefined are left out. */
export function checkPlainData(where: string, root: unknown): void {
  if (root === undefined || !isPlainData(root, DEEPEST)) lookClosely(where, root)
}

/** True for most values, at a third of the cost. False if only a closer look can tell. */
function isPlainData(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return isPrimitive(value)
  if (depth === 0 || !isPlain(value) || hasToJson(value)) return false
  if (Array.isArray(value)) {
    for (const member of value) if (!isPlainData(member, depth - 1)) return false
    return true
  }
  for (const name of Object.keys(value)) {
    if (!isPlainData(value[name as keyof typeof value], depth - 1)) return false
  }
  return true
}

function lookClosely(where: string, root: unknown): void {
  const open = new Set<unknown>()
  // Not recursive: nesting may be deeper than calls may be. A visit that is met again is done with.
  const visits: Visit[] = [{ value: root, key: '', parent: undefined }]
  for (let visit = visits.at(-1); visit !== undefined; visit = visits.at(-1)) {
    const { value } = visit
    if (open.delete(value)) {
      visits.pop()
      continue
    }
    const problem = problemOf(value)
    if (problem !== undefined) throw valueError(where, `${pathOf(visit)}${problem}`)
    if (!isContainer(value)) {
      visits.pop()
      continue
    }
    open.add(value)
    // Backwards, so that the first problem is met first.
    const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
    for (let i = keys.length - 1; i >= 0; i--) {
      const key = keys[i] as keyof typeof value
      const member: unknown = value[key]
      if (isPrimitive(member)) continue
      if (open.has(member))
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

/** Arrays, and objects without a class: also those of another realm. */
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

/** `.list[3].name: `; empty for the value itself. */
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
