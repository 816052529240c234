// The parsed JSON of a value: one frozen object for all callers. It takes 2 to 30 times the memory
// of its text, and L1 cannot count that memory. So the object has only a weak reference, and the
// garbage collector may free it. Parsing for each hit would cost 4 times as much as the hit.

/** The value in an object, because a weak reference cannot hold a number or a string. */
class Parsed implements ParsedValue {
  readonly value: unknown
  /** One promise for all callers, because a promise per caller would cost half of a hit. */
  promise: Promise<unknown> | undefined

  constructor(value: unknown) {
    this.value = value
    this.promise = undefined
  }

  deref(): Parsed {
    return this
  }
}

export interface ParsedValue {
  deref(): Parsed | undefined
}

/**
 * The parsed value of an entry from the store. Throws the error of `JSON.parse`. If `isKept` is
 * false, the entry does not go into L1. Then no weak reference is created, because V8 would keep
 * its target until the next full garbage collection.
 */
export function parsedFrom(body: Uint8Array, isKept: boolean): ParsedValue {
  const read = new Parsed(parseFrozen(body))
  return isKept ? new WeakRef(read) : read
}

interface Readable {
  readonly body: Uint8Array
  parsed?: ParsedValue | undefined
}

/** The value of an entry. It is parsed again if the garbage collector freed it. */
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
  const read = new Parsed(parseFrozen(stored.body))
  stored.parsed = new WeakRef(read)
  return read
}

// A JSON parser whose result is frozen, because all callers of a key share one object.

/** Parses JSON and freezes all of it. Throws the error of `JSON.parse`. */
function parseFrozen(json: Uint8Array): unknown {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()
  return freezeAll(JSON.parse(text))
}

/** Freezes a value that `JSON.parse` has returned, with all its members. */
export function freezeAll(root: unknown): unknown {
  if (!isObject(root)) return root
  // A loop with its own stack, since deeply nested JSON would overflow the call stack.
  const pending = [root]
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
    for (const member of members) if (isObject(member)) pending.push(member)
    Object.freeze(value)
  }
  return root
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
