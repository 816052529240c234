// Copies that keep no other memory alive. A view of bytes holds its whole buffer, and a part of a
// string may hold the whole string. Long-lived small parts would hold much memory that is not
// counted.

import { ownFields, shared } from '../http/fields.ts'
import { ownText } from '../recent.ts'
import type { Made, StoredEntry } from './entry.ts'

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

/**
 * The entry with strings of its own: an application's header values, tags, and the path as a part
 * of the URL. `tookMs`: the duration of its fill. JSON values have strings of their own already.
 */
export function withOwnStrings(entry: StoredEntry, tookMs: number): StoredEntry {
  const { body, made: given } = entry
  const made = ownMade(given, tookMs)
  if (entry.type === 'value') {
    return { type: 'value', encoding: entry.encoding, body, made, parsed: entry.parsed }
  }
  const { status, initialAgeMs, minted, own, kind } = entry
  const fields = ownFields(entry.fields)
  const vary = entry.vary.length === 0 ? NONE : copied(entry.vary)
  // One literal: objects that are spread get hidden classes of their own, and cost ten times more.
  return { type: 'response', status, fields, body, initialAgeMs, vary, made, minted, own, kind }
}

const NONE: readonly never[] = []

function ownMade({ asOf, subjects, path, host }: Made, tookMs: number): Made {
  return {
    asOf,
    tookMs,
    subjects: subjects.length === 0 ? NONE : copied(subjects),
    path: path === undefined ? undefined : ownText(path),
    host: host === undefined ? undefined : shared(host),
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
