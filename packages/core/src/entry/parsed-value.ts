// The parsed JSON of a value: one frozen object for all callers. It takes 2 to 30 times the memory of its
// text, which no limit could count, so it is left to the garbage collector. Parsing for each hit would
// cost 4 times as much as the hit.

import { parseFrozen } from './frozen-json.ts'

/** The value in an object: a weak reference cannot hold a number or a string. */
export type ParsedValue = WeakRef<{ readonly value: unknown }>

/** For a value that was just made or came from elsewhere. Throws what JSON.parse throws. */
export function parsedFrom(body: Uint8Array): ParsedValue {
  return new WeakRef({ value: parseFrozen(body) })
}

/** The value of an entry. It is parsed again only if it was collected meanwhile. */
export function readValue(stored: {
  readonly body: Uint8Array
  parsed?: ParsedValue | undefined
}): unknown {
  const known = stored.parsed?.deref()
  if (known !== undefined) return known.value
  const read = { value: parseFrozen(stored.body) }
  stored.parsed = new WeakRef(read)
  return read.value
}
