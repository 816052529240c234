// The JSON of a value, read: one object for everybody who asks. It takes 2 to 30 times the memory of its text, which nobody could
// bound, so it is left to the garbage collector, and reading it again costs less than keeping half as many. Only small ones of
// late are held: engines keep count of whoever follows a weak reference, which takes longer than all else that a hit does.

import { parseFrozen } from './frozen-json.ts'

interface Read {
  readonly value: unknown
}

/** `held`: while it is one of those of late. Copies of an entry share it. */
export interface ParsedValue {
  readonly weak: WeakRef<Read>
  held: Read | undefined
}

const MOST_HELD = 1_024
const LONGEST_HELD = 4_096
/** Those of late, in a circle. */
const ofLate: Array<ParsedValue | undefined> = new Array(MOST_HELD)
let oldest = 0

/** For a value that was just made or came from elsewhere. Throws what JSON.parse throws. */
export function parsedFrom(body: Uint8Array): ParsedValue {
  return keep({ value: parseFrozen(body) }, body)
}

/** The value of an entry, read anew only if it was collected meanwhile. */
export function readValue(stored: {
  readonly body: Uint8Array
  parsed?: ParsedValue | undefined
}): unknown {
  const { body, parsed } = stored
  if (parsed?.held !== undefined) return parsed.held.value
  const left = parsed?.weak.deref()
  if (parsed !== undefined && left !== undefined) {
    hold(parsed, left, body)
    return left.value
  }
  const read = { value: parseFrozen(body) }
  stored.parsed = keep(read, body)
  return read.value
}

function keep(read: Read, body: Uint8Array): ParsedValue {
  const parsed = { weak: new WeakRef(read), held: undefined }
  hold(parsed, read, body)
  return parsed
}

function hold(parsed: ParsedValue, read: Read, { byteLength }: Uint8Array): void {
  if (byteLength > LONGEST_HELD) return
  const before = ofLate[oldest]
  if (before !== undefined) before.held = undefined
  parsed.held = read
  ofLate[oldest] = parsed
  oldest = (oldest + 1) % MOST_HELD
}
