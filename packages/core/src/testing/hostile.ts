// Pieces of hostile input, and the number of runs, for property tests of all parsers of outside
// input.

/**
 * Settings of a property. The cases are the same each time, unless `npm run fuzz:input` asks for
 * others. `npm test` runs a quarter of the usual number, `npm run test:soak` twice the number.
 */
export function runs(usual: number): { readonly seed: number; readonly numRuns: number } {
  const { STAMPEDE_FUZZ_SEED: seed = '2026', STAMPEDE_FUZZ_TIMES: times = '0.25' } = process.env
  return { seed: Number(seed), numRuns: Math.ceil(usual * Number(times)) }
}

/**
 * Each piece means something to some parser here: separators, open quotes, names that every object
 * has, lone surrogates.
 */
export const HOSTILE_PIECES: readonly string[] = [
  ...['', ' ', '\t', '\r\n', '\n', '\0', '\x7f', '\x80', '\xa0', '\xff', 'é', '☃', '\u2028', '💥'],
  ...['\ud800', '\udc00', ',', ';', '=', ':', '/', '//', '\\', '"', "'", '""', '"\\', '\\"', '%'],
  ...['%2', '%ZZ', '%00', '%2f', '%2F', '%C3', '%C3%A9', '%ff', '%25', '+', '&', '&&', '?', '#'],
  ...['[', ']', '[]', '[a]', '{', '}', '(', ')', '*', '.', '..', '/..', '-', '--', '_', '@', '!'],
  ...['0', '00', '1', '-1', '1.5', '1e9', '9'.repeat(20), 'a', 'A', 'q=0', ';q=0.5', 'W/', '"a"'],
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'null', 'undefined'],
  ...['no-store', 'private', 'no-cache', 'max-age', 'max-age=60', 's-maxage', 'public', 'bytes='],
  ...['gzip', 'identity', 'en', 'GMT', 'Thu, 01 Jan 1970 00:00:00 GMT', ':id', '*rest', 'http://'],
]

/**
 * The greatest length of outside input. A quadratic parser takes seconds for it (4e9 steps), a
 * linear one milliseconds.
 */
export const LONG: number = 64 * 1024

/** The piece, repeated. */
export function repeated(piece: string, length: number = LONG): string {
  return piece.repeat(Math.ceil(length / piece.length)).slice(0, length)
}
