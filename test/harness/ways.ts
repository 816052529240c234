// Ways to send a response, which the small apps of several frameworks have under the same names.

/** Handlers by the name of the way. */
export type Ways<Args extends unknown[]> = Readonly<Record<string, (...args: Args) => unknown>>

/** The bytes of "€😀" in three chunks, which split both characters. */
export const SPLIT_CHARACTERS: readonly Buffer[] = [
  [0xe2, 0x82],
  [0xac, 0xf0, 0x9f],
  [0x98, 0x80],
].map((piece) => Buffer.from(piece))

/** Fields as `writeHead` of Node accepts them, with two of one name. */
export const HEAD_LINES = ['X-Own', 'yes', 'Location', '/orders/7', 'Link', '<a>', 'Link', '<b>']

/** The way with this name. The name comes from a URL, which may contain `__proto__`. */
export function own<T>(all: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(all, name) ? all[name] : undefined
}
