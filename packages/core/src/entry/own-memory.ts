// Copies of bytes and strings that do not reference a larger buffer or string. A view of bytes
// keeps its whole buffer in memory, and a substring may keep its whole parent string. L1 does not
// count that memory.

import { ownFields, shared } from '../http/fields.ts'
import { detachedText } from '../recent.ts'
import type { Provenance, StoredEntry, StoredResponse } from './entry.ts'

/**
 * A copy of `view`, or `view` itself if it covers nearly its whole buffer. Node allocates small
 * buffers as views of a buffer of 8 KiB. Redis replies are views of the socket's buffer.
 */
export function ownBytes(view: Uint8Array): Uint8Array {
  const rest = view.buffer.byteLength - view.byteLength
  if (rest <= Math.max(64, view.byteLength / 32)) return view
  const own = Buffer.allocUnsafeSlow(view.byteLength)
  own.set(view)
  return own
}

/**
 * The entry with copies of its strings: header fields, `Vary` values, tags, path, host and route.
 * Such a string may be a part of a longer one, as the path is a part of the URL. The longer one
 * would then stay in memory. The body is not copied. `tookMs` is the duration of the fill.
 */
export function withOwnStrings(entry: StoredEntry, tookMs: number): StoredEntry {
  const { body, provenance: given } = entry
  const provenance = ownProvenance(given, tookMs)
  if (entry.type === 'value') {
    return { type: 'value', encoding: entry.encoding, body, provenance, parsed: undefined }
  }
  const { status, initialAgeMs, minted, own, kind } = entry
  const fields = ownFields(entry.fields)
  const vary = entry.vary.length === 0 ? NONE : deepCopy(entry.vary)
  // One object literal, because each spread object gets its own hidden class and costs ten times as
  // much.
  return {
    type: 'response',
    status,
    fields,
    body,
    initialAgeMs,
    vary,
    provenance,
    minted,
    own,
    kind,
  }
}

/** The response with a greater age. A literal like the one above, so it has its hidden class. */
export function agedBy(response: StoredResponse, ms: number): StoredResponse {
  const { status, fields, body, vary, provenance, minted, own, kind } = response
  return {
    type: 'response',
    status,
    fields,
    body,
    initialAgeMs: response.initialAgeMs + ms,
    vary,
    provenance,
    minted,
    own,
    kind,
  }
}

const NONE: readonly never[] = []

function ownProvenance(given: Provenance, tookMs: number): Provenance {
  const { asOf, subjects, path, host, route } = given
  return {
    asOf,
    tookMs,
    subjects: subjects.length === 0 ? NONE : deepCopy(subjects),
    path: path === undefined ? undefined : detachedText(path),
    host: host === undefined ? undefined : shared(host),
    route: route === undefined ? undefined : shared(route),
  }
}

/** A deep copy of JSON data, whose strings do not reference longer ones. */
export function deepCopy<T>(part: T): T {
  return JSON.parse(JSON.stringify(part)) as T
}

/** Memory of an array with a name and a value, without their characters. */
export const PAIR_BYTES = 64

/**
 * Memory of a string: a header, and one byte per character. If any character is outside Latin-1, V8
 * uses two bytes per character.
 */
export function stringBytes(text: string): number {
  return 24 + (/[^\0-\xff]/.test(text) ? 2 : 1) * text.length
}
