// Compressed forms of bodies in memory. Each form is made once, on a thread of zlib and after a
// response was sent, so that no request waits for it. A form is freed together with its body.

import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { ownBytes } from '../entry/own-memory.ts'
import type { Coding } from '../http/content-coding.ts'

type Code = (body: Uint8Array) => Promise<Uint8Array>

/** Compression levels. They are rather high, because a body is compressed once and sent often. */
const BROTLI_QUALITY = 6
const GZIP_LEVEL = 7

const brotli = promisify(zlib.brotliCompress)
const gzip = promisify(zlib.gzip)
/** Undefined before Node 22.15. */
const zstd = (zlib as { zstdCompress?: (body: Uint8Array, done: () => void) => void }).zstdCompress

const CODERS: ReadonlyMap<Coding, Code> = new Map<Coding, Code>([
  [
    'br',
    (body) => brotli(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  ],
  ...(zstd ? ([['zstd', promisify(zstd) as unknown as Code]] as const) : []),
  ['gzip', (body) => gzip(body, { level: GZIP_LEVEL })],
])

/** The codings that this version of Node supports. The one with the smallest result comes first. */
export const CODINGS: readonly Coding[] = [...CODERS.keys()]

/**
 * Limit of simultaneous compressions. Node has four threads for compression, file system and DNS
 * calls together.
 */
const MOST_AT_ONCE = 2
/** A form is dropped if it is larger than this fraction of the body. */
const LARGEST_PART = 0.9

/** Memory of a form without its bytes: buffer object, map entry and fields. Measured on Node 20. */
const FORM_BYTES = 1_300

/**
 * The forms of each body. `undefined`: the compression is still running, or its result was dropped.
 */
const forms = new WeakMap<Uint8Array, Map<Coding, Uint8Array | undefined>>()
let running = 0

export function codedBody(body: Uint8Array, coding: Coding): Uint8Array | undefined {
  return forms.get(body)?.get(coding)
}

export function codedBytes(body: Uint8Array): number {
  let bytes = 0
  for (const form of forms.get(body)?.values() ?? []) {
    if (form !== undefined) bytes += FORM_BYTES + form.buffer.byteLength
  }
  return bytes
}

/** Drops a form permanently, because L1 has no room for it. */
export function dropForm(body: Uint8Array, coding: Coding): void {
  forms.get(body)?.set(coding, undefined)
}

/**
 * Compresses a body in the background, unless this was tried before. If too many compressions run,
 * it does nothing, and a later hit tries again. Calls `onForm` after it has added a form.
 */
export async function compressInBackground(
  body: Uint8Array,
  coding: Coding,
  onForm: () => void,
): Promise<void> {
  const code = CODERS.get(coding)
  const known = forms.get(body) ?? new Map<Coding, Uint8Array | undefined>()
  if (code === undefined || known.has(coding) || running === MOST_AT_ONCE) return
  forms.set(body, known.set(coding, undefined))
  running += 1
  try {
    const form = await code(body)
    if (form.byteLength > body.byteLength * LARGEST_PART) return
    // zlib returns a view of a larger buffer.
    known.set(coding, ownBytes(form))
    onForm()
  } catch {
    // Out of memory. The uncompressed body is sent as before.
  } finally {
    running -= 1
  }
}
