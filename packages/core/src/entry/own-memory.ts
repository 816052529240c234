// Entries that keep nothing alive but themselves. A view of bytes holds the whole buffer it is of, a part of a string may hold
// the whole string: little that is kept for long would hold much that nobody counts.

import { toFields, toHeaders } from '../http/fields.ts'
import type { StoredEntry } from './entry.ts'

/** Node gives small buffers out of one of 8 KiB, and Redis replies out of what the socket read; what is nearly whole stays. */
export function ownBytes(view: Uint8Array): Uint8Array {
  const rest = view.buffer.byteLength - view.byteLength
  if (rest <= Math.max(64, view.byteLength / 32)) return view
  const own = Buffer.allocUnsafeSlow(view.byteLength)
  own.set(view)
  return own
}

/** What an application gave: its header values, its tags, the path as a part of the URL. What was read from JSON is its own. */
export function withOwnStrings(entry: StoredEntry): StoredEntry {
  if (entry.type === 'value') return { ...entry, made: copied(entry.made) }
  const { fields, vary, made } = entry
  // Names that are common are one string again.
  const own = toFields(toHeaders(copied(fields)))
  return { ...entry, fields: own, ...copied({ vary, made }) }
}

function copied<T>(part: T): T {
  return JSON.parse(JSON.stringify(part)) as T
}
