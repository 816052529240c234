// Copies that keep no other memory alive. A view of bytes holds its whole buffer, and a part of a
// string may hold the whole string. Long-lived small parts would hold much memory that is not
// counted.

import { ownFields, shared } from '../http/fields.ts'
import { ownText } from '../recent.ts'
import { type Made, type StoredEntry, withMade } from './entry.ts'

/**
 * A copy of `view`, or `view` itself if it is nearly its whole buffer. Node allots small buffers
 * from one of 8 KiB, and Redis replies are views of what the socket read.
 */
export function ownBytes(view: Uint8Array): Uint8Array {
  const rest = view.buffer.byteLength - view.byteLength
  if (rest <= Math.max(64, view.byteLength / 32)) return view
  const own = Buffer.allocUnsafeSlow(view.byteLength)
  own.set(view)
  return own
}

/** What an application gave: its header values, its tags, the path as a part of the URL. What was read from JSON is its own. */
export function withOwnStrings(entry: StoredEntry): StoredEntry {
  if (entry.type === 'value') return withMade(entry, ownMade(entry.made))
  const { fields, vary, made } = entry
  return {
    ...entry,
    fields: ownFields(fields),
    vary: vary.length === 0 ? NONE : copied(vary),
    made: ownMade(made),
  }
}

const NONE: readonly never[] = []

function ownMade({ asOf, tookMs, subjects: given, path, host }: Made): Made {
  const subjects = given.length === 0 ? NONE : copied(given)
  if (path === undefined && host === undefined) return { asOf, tookMs, subjects }
  return {
    asOf,
    tookMs,
    subjects,
    ...(path !== undefined && { path: ownText(path) }),
    ...(host !== undefined && { host: shared(ownText(host)) }),
  }
}

/** A copy whose strings are no parts of others. For plain data. */
export function copied<T>(part: T): T {
  return JSON.parse(JSON.stringify(part)) as T
}

/** An array of a name and a value, without their text. */
export const PAIR_BYTES = 64

/** What a string takes: one byte a character, or two if one of them is beyond Latin-1, and a header of its own. */
export function stringBytes(text: string): number {
  return 24 + (/[^\0-\xff]/.test(text) ? 2 : 1) * text.length
}
