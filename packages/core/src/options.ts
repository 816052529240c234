// How options are checked, everywhere: unknown names, types and ranges, with the fix in the message.
// An explicit `undefined` is the same as leaving the option out.

import { optionError } from './errors.ts'

/** Longest duration accepted anywhere: one year. Timers are cut, and dates stay exact, below it. */
export const LONGEST_MS: number = 366 * 24 * 3600 * 1000

export type Bag = Readonly<Record<string, unknown>>

/** Refuses anything but a plain object with known names; suggests the nearest name. */
export function checkNames(where: string, options: unknown, known: readonly string[]): Bag {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw optionError(where, options, 'pass an object of options')
  }
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue
    const near = nearest(name, known)
    const fix = near === undefined ? `known options: ${known.join(', ')}` : `did you mean ${near}?`
    throw optionError(`${where}.${name}`, (options as Bag)[name], `there is no such option; ${fix}`)
  }
  return options as Bag
}

export interface NumberRule {
  readonly min: number
  readonly max: number
  /** What the number counts, for the message: `milliseconds`, `bytes`; of a fraction, what it is a part or a multiple of. */
  readonly unit: string
  /** Fractions allowed? Default: whole numbers only. */
  readonly fraction?: boolean
}

/** A number in range, or `undefined` when the option was left out. */
export function readNumber(
  where: string,
  bag: Bag,
  name: string,
  rule: NumberRule,
): number | undefined {
  const value = bag[name]
  if (value === undefined) return undefined
  const range = `from ${rule.min} to ${rule.max}`
  const fix =
    rule.fraction === true
      ? `use a number ${range}, times ${rule.unit}`
      : `use a whole number of ${rule.unit} ${range}`
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw optionError(`${where}.${name}`, value, fix)
  }
  if (value < rule.min || value > rule.max) throw optionError(`${where}.${name}`, value, fix)
  if (rule.fraction !== true && !Number.isInteger(value)) {
    throw optionError(`${where}.${name}`, value, fix)
  }
  return value
}

export function readDurationMs(
  where: string,
  bag: Bag,
  name: string,
  minMs = 0,
): number | undefined {
  return readNumber(where, bag, name, { min: minMs, max: LONGEST_MS, unit: 'milliseconds' })
}

export function readBytes(where: string, bag: Bag, name: string): number | undefined {
  return readNumber(where, bag, name, { min: 0, max: 2 ** 40, unit: 'bytes' })
}

export function readBoolean(where: string, bag: Bag, name: string): boolean | undefined {
  const value = bag[name]
  if (value === undefined || typeof value === 'boolean') return value
  throw optionError(`${where}.${name}`, value, 'use true or false')
}

// biome-ignore lint/complexity/noBannedTypes: any callable is accepted here, its type is the caller's
export function readFunction(where: string, bag: Bag, name: string): Function | undefined {
  const value = bag[name]
  if (value === undefined || typeof value === 'function') return value
  throw optionError(`${where}.${name}`, value, 'use a function')
}

export function readChoice<T extends string>(
  where: string,
  bag: Bag,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = bag[name]
  if (value === undefined) return undefined
  if (choices.includes(value as T)) return value as T
  throw optionError(
    `${where}.${name}`,
    value,
    `use one of ${choices.map((c) => `'${c}'`).join(', ')}`,
  )
}

export function readStrings(where: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string' && item !== '')) {
    return value as readonly string[]
  }
  throw optionError(where, value, 'use an array of non-empty strings')
}

/** The known name closest to a mistyped one, if any is close enough to suggest. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase()
  const extended = known.find((k) => k.toLowerCase().startsWith(lower) && k !== name)
  if (extended !== undefined && lower.length >= 3) return extended
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(lower, candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** Levenshtein distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
