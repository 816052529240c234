// What the handlers answer, whatever they are written for: one path a way of answering.
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

/** Every byte there is, so that no text encoding can carry it. */
export const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

/** A character is cut in two by the chunks. */
export function chunksOf(id: string): Buffer[] {
  const bytes = Buffer.from(`order ${id}: ✓ done\n`)
  const cut = bytes.indexOf(0xe2) + 1
  return [bytes.subarray(0, cut), bytes.subarray(cut)]
}

/** Any file that is there will do. */
export const FILE: string = fileURLToPath(import.meta.url)

/** More than any sensible limit for what is kept of a response. */
export const LARGE: string = 'x'.repeat(3 * 1024 * 1024)

/** The first attempt fails; a retry would succeed, if it were let through. */
export const FAILURE = { error: 'try again' }
