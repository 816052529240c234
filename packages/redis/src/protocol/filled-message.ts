// What lua/commit-2.lua tells a process that waits, with the word that wakes it: what was made, so that it need not ask. A hint, checked
// like all that comes from the server.

import { readKeyed } from './keyed-message.ts'

/** Larger ones are not told: whoever is woken asks for it. */
export const LONGEST_TOLD: number = 16 * 1024
/** For so long as it takes to tell them, the server serves nobody else: beyond this, they ask one after another. */
export const TOLD_IN_ALL: number = 1024 * 1024

/** What a process that waits is told was made. */
export interface Filled {
  readonly key: string
  /** By which name it asked, and under which fence it was made. */
  readonly token: string
  readonly fence: string
  /** When, by the server's clock. */
  readonly at: number
  readonly freshMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
  readonly frame: Uint8Array
}

const HEAD = /^\0([\w-]{1,64}) (\d{1,16})((?: \d{1,16}){6})$/

/** No key begins so. */
export function isFilled(message: Buffer): boolean {
  return message[0] === 0
}

/** Undefined for whatever cannot be read. */
export function readFilled(message: Buffer): Filled | undefined {
  const read = readKeyed(message, HEAD)
  if (read === undefined) return undefined
  const [token = '', fence = ''] = read.words
  const [at = 0, freshMs = 0, swr = 0, sie = 0, keepMs = 0] = read.numbers
  const windows = { staleWhileRevalidateMs: swr, staleIfErrorMs: sie, keepMs }
  return { key: read.key, token, fence, at, freshMs, ...windows, frame: read.rest }
}
