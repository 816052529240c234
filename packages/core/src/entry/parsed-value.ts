// The parsed JSON of a value: one frozen object for all callers. It takes 2 to 30 times the memory of its
// text, which no limit could count, so it is left to the garbage collector. Parsing for each hit would
// cost 4 times as much as the hit.

import { parseFrozen } from './frozen-json.ts'

/** The value in an object: a weak reference cannot hold a number or a string. */
interface Parsed {
  readonly value: unknown
  /** Resolved to the value, and given to each caller of a hit: a promise each cost half of the hit. */
  promise: Promise<unknown> | undefined
}

export interface ParsedValue {
  deref(): Parsed | undefined
}

/**
 * For a value that came from elsewhere. Throws what JSON.parse throws. A weak reference keeps its
 * object alive until old memory is collected, so what is not kept has none.
 */
export function parsedFrom(body: Uint8Array, isKept: boolean): ParsedValue {
  const read: Parsed = { value: parseFrozen(body), promise: undefined }
  return isKept ? new WeakRef(read) : { deref: () => read }
}

/** The value of an entry that is read once. */
export function readOnce({ body, parsed }: Readable): unknown {
  const known = parsed?.deref()
  return known === undefined ? parseFrozen(body) : known.value
}

interface Readable {
  readonly body: Uint8Array
  parsed?: ParsedValue | undefined
}

/** The value of an entry. It is parsed again only if it was collected meanwhile. */
export function readValue(stored: Readable): unknown {
  return parsedOf(stored).value
}

/** The value of an entry as one promise for all callers. */
export function readPromise(stored: Readable): Promise<unknown> {
  const read = parsedOf(stored)
  read.promise ??= Promise.resolve(read.value)
  return read.promise
}

function parsedOf(stored: Readable): Parsed {
  const known = stored.parsed?.deref()
  if (known !== undefined) return known
  const read: Parsed = { value: parseFrozen(stored.body), promise: undefined }
  stored.parsed = new WeakRef(read)
  return read
}
