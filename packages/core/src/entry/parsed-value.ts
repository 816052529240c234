// The parsed JSON of a value: one frozen object for all callers, behind a weak reference. It takes
// 2 to 30 times the memory of its text, which L1 cannot count, so the garbage collector may free
// it. Parsing for each hit would cost 4 times as much as the hit.

import { parseFrozen } from './frozen-json.ts'

/** The value wrapped in an object, because a weak reference cannot hold a number or a string. */
export interface ParsedValue {
  deref(): { readonly value: unknown } | undefined
}

/**
 * The parsed value of an entry from the store. Throws the error of `JSON.parse`. A value that is
 * not kept has no weak reference, because V8 would then keep the value until the next full garbage
 * collection.
 */
export function parsedFrom(body: Uint8Array, isKept: boolean): ParsedValue {
  const read = { value: parseFrozen(body) }
  return isKept ? new WeakRef(read) : { deref: () => read }
}

/** The value of an entry that is used only once. */
export function readOnce({ body, parsed }: Readable): unknown {
  const known = parsed?.deref()
  return known === undefined ? parseFrozen(body) : known.value
}

interface Readable {
  readonly body: Uint8Array
  parsed?: ParsedValue | undefined
}

/** The value of an entry. It is parsed again if the garbage collector freed it. */
export function readValue(stored: Readable): unknown {
  const known = stored.parsed?.deref()
  if (known !== undefined) return known.value
  const read = { value: parseFrozen(stored.body) }
  stored.parsed = new WeakRef(read)
  return read.value
}
