// Responses of the order routes, the same for every framework: one path per way to respond.
import { fileURLToPath } from 'node:url'

export const WAYS = [
  'json',
  'other',
  'empty',
  'no-content',
  'binary',
  'stream',
  'redirect',
  'file',
  'throws',
  'unavailable',
  'limited',
  'cookie',
  'large',
] as const

export type Way = (typeof WAYS)[number]

export const pathOf = (way: Way): string => `/orders/${way}`

export const locationOf = (id: string): string => `/orders/${id}`

export const order = (id: string): object => ({ id, note: 'naïve ✓', price: 9.5, lines: [] })

/** All byte values, so that no text encoding can carry them. */
export const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

/** Chunks that cut a character in two. */
export function chunksOf(id: string): Buffer[] {
  const bytes = Buffer.from(`order ${id}: ✓ done\n`)
  const cut = bytes.indexOf(0xe2) + 1
  return [bytes.subarray(0, cut), bytes.subarray(cut)]
}

/** Any existing file works. */
export const FILE: string = fileURLToPath(import.meta.url)

/** Longer than any sensible limit for stored responses. */
export const LARGE: string = 'x'.repeat(3 * 1024 * 1024)

/** The body of the first attempt. A retry succeeds if it runs. */
export const FAILURE = { error: 'try again' }
