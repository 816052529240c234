// Canonical JSON: one text for all JSON texts that JSON.parse reads as the same value. Members are
// sorted by name, and the last of several members of one name counts.

import { createHash } from 'node:crypto'
import { types } from 'node:util'

/** Deepest nesting. Real requests stay below it, and recursive code in handlers can process it. */
const DEEPEST = 512

/** A number that JSON.parse may round, or read as 0 or Infinity. A double has 15 exact digits. */
const ROUNDED = /\d(?:\.?\d){15}|\d[eE][+-]?\d{3}/
/** Without its last quote, a string ends with the text. That keeps the time linear. */
const STRINGS = /"[^"\\]*(?:\\.[^"\\]*)*"?/g

/**
 * Canonical form of a text. Undefined if it is not valid JSON (RFC 8259) or nested too deep, or has
 * a number that JSON.parse may round: 9007199254740993 would equal 9007199254740992.
 */
export function canonicalJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isRounded = ROUNDED.test(text) && ROUNDED.test(text.replace(STRINGS, ''))
    return isRounded ? undefined : sorted(value, 0)
  } catch {
    return undefined
  }
}

/** Canonical form of a value. Undefined if JSON cannot represent it, or it is nested too deep. */
export function canonicalValue(value: unknown): string | undefined {
  try {
    return sorted(value, 0) ?? sorted(JSON.parse(jsonOf(value) ?? ''), 0)
  } catch {
    return undefined
  }
}

const PLAIN_TEXT = /^[ !#-[\]-~]*$/

function quoted(text: string): string {
  return PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text)
}

/** Undefined unless the value is as JSON.parse returns it, in at most `DEEPEST` levels. */
function sorted(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : undefined
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object' || depth === DEEPEST) return undefined
  const isArray = Array.isArray(value)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== (isArray ? Array.prototype : Object.prototype)) return undefined
  const members = value as Readonly<Record<string, unknown>>
  if (typeof members.toJSON === 'function') return undefined
  // `+=` does not copy. `join` would copy an inner value once per level.
  let text = ''
  for (const name of isArray ? value.keys() : Object.keys(members).sort()) {
    const inner = sorted(members[name], depth + 1)
    if (inner === undefined) return undefined
    text += `${text === '' ? '' : ','}${isArray ? '' : `${quoted(name as string)}:`}${inner}`
  }
  return isArray ? `[${text}]` : `{${text}}`
}

/**
 * JSON.stringify, but with the hash of bytes in place of the bytes. Throws the errors of
 * JSON.stringify (a RangeError for deep nesting). Also throws for an object with content that JSON
 * writes as `{}`.
 */
export function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value, replacer)
}

function replacer(this: unknown, key: string, value: unknown): unknown {
  // `value` of a Buffer is already an array of numbers, because its toJSON runs before the
  // replacer.
  const own = (this as Record<string, unknown>)[key]
  if (types.isUint8Array(own)) {
    return { 'stampede:bytes': createHash('sha256').update(own).digest('base64url') }
  }
  if (isEmptyInJson(value)) throw new TypeError('JSON cannot represent this object')
  return value
}

/** Whether JSON writes an object as `{}` although it has content: a Promise, Map, Set or RegExp. */
function isEmptyInJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of a plain object in each realm is the end of its prototype chain.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return false
  return Object.keys(value).length === 0
}
