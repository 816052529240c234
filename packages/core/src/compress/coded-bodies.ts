// Compressed forms of bodies that are kept in memory. Each is made once, by zlib's threads, after a
// response and never before one. It lives as long as its body.

import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { ownBytes } from '../entry/own-memory.ts'
import type { Coding } from '../http/content-coding.ts'

type Code = (body: Uint8Array) => Promise<Uint8Array>

/** Levels at which a second core gains more than a network does: kept once, sent often. */
const BROTLI_QUALITY = 6
const GZIP_LEVEL = 7

const brotli = promisify(zlib.brotliCompress)
const gzip = promisify(zlib.gzip)
/** From Node 22.15 on. */
const zstd = (zlib as { zstdCompress?: (body: Uint8Array, done: () => void) => void }).zstdCompress

const CODERS: ReadonlyMap<Coding, Code> = new Map<Coding, Code>([
  [
    'br',
    (body) => brotli(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  ],
  ...(zstd ? ([['zstd', promisify(zstd) as unknown as Code]] as const) : []),
  ['gzip', (body) => gzip(body, { level: GZIP_LEVEL })],
])

/** What this Node can make, the smallest first. */
export const CODINGS: readonly Coding[] = [...CODERS.keys()]

/** The threads are four, and file systems and DNS have no others. */
const MOST_AT_ONCE = 2
/** Less is not worth another form. */
const LARGEST_PART = 0.9

/** Its buffer, its place here, and its fields beside those of the form as it is: as measured on Node 20. */
const FORM_BYTES = 1_300

/** `undefined`: being made, or not worth it. */
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

/** For good: it would take more room than there is. */
export function dropCoded(body: Uint8Array, coding: Coding): void {
  forms.get(body)?.set(coding, undefined)
}

/** Makes it unless that was tried; when there is too much to do, a later hit asks again. `made` is called if there is a form now. */
export async function codeBehind(
  body: Uint8Array,
  coding: Coding,
  made: () => void,
): Promise<void> {
  const code = CODERS.get(coding)
  const known = forms.get(body) ?? new Map<Coding, Uint8Array | undefined>()
  if (code === undefined || known.has(coding) || running === MOST_AT_ONCE) return
  forms.set(body, known.set(coding, undefined))
  running += 1
  try {
    const form = await code(body)
    if (form.byteLength > body.byteLength * LARGEST_PART) return
    // What zlib returns is a view of a larger buffer.
    known.set(coding, ownBytes(form))
    made()
  } catch {
    // Out of memory: what there is goes on being sent as it is.
  } finally {
    running -= 1
  }
}
