// The checks of the option `compress` of stampedeCache.

import { optionError } from '../errors.ts'
import type { Coding } from '../http/content-coding.ts'
import { bytes, readOptions, readStrings } from '../options.ts'
import { CODINGS } from './coded-bodies.ts'
import { Compression } from './compression.ts'

const DEFAULT_MIN_BYTES = 1024
/** Media types whose formats are not compressed already. */
const DEFAULT_TYPES: readonly string[] = [
  ...['text/*', '*/*+json', '*/*+xml', '*/*+text', 'application/json', 'application/xml'],
  ...['application/javascript', 'application/ecmascript', 'application/x-javascript'],
  ...['application/x-ndjson', 'application/graphql', 'application/wasm', 'application/x-yaml'],
  ...['font/ttf', 'font/otf', 'application/vnd.ms-fontobject', 'image/bmp', 'image/x-icon'],
]

export function readCompression(
  where: string,
  value: unknown,
  available: readonly Coding[] = CODINGS,
): Compression | undefined {
  if (value === undefined || value === false) return undefined
  if (typeof value === 'string' || Array.isArray(value)) {
    throw optionError(where, value, "use true, or { codings: ['br'] }")
  }
  const readers = {
    minBytes: bytes(DEFAULT_MIN_BYTES),
    types: readTypes,
    codings: (at: string, codings: unknown) => readCodings(at, codings, available),
  }
  const { minBytes, types, codings } = readOptions(where, value === true ? {} : value, readers)
  return new Compression({ minBytes, codings, matches: types })
}

function readSome(option: string, value: unknown): readonly string[] {
  const names = readStrings(option, value)
  if (names.length > 0) return names
  throw optionError(option, value, 'name at least one, or leave `compress` out')
}

/** Codings that this version of Node lacks are left out, so Node 20 and 22 can share options. */
function readCodings(
  where: string,
  value: unknown,
  available: readonly Coding[],
): readonly Coding[] {
  if (value === undefined) return available
  const names = readSome(where, value)
  for (const [i, name] of names.entries()) {
    if (name !== 'br' && name !== 'zstd' && name !== 'gzip')
      throw optionError(`${where}[${i}]`, name, "use 'br', 'zstd' or 'gzip'")
    if (names.indexOf(name) < i)
      throw optionError(`${where}[${i}]`, name, 'this coding is listed twice; list it once')
  }
  const usable = available.filter((name) => names.includes(name))
  if (usable.length === 0) throw optionError(where, names.join(), NO_ZSTD)
  return (names as readonly Coding[]).filter((name) => usable.includes(name))
}

const NO_ZSTD = "zstd needs Node 22.15 or newer; add another coding: ['zstd', 'br']"

const TYPE = /^(?:[!#$&\-^_.+a-z0-9]+|\*)\/(?:\*\+)?(?:[!#$&\-^_.+a-z0-9]+|\*)$/i

function readTypes(where: string, value: unknown): (type: string) => boolean {
  const types = value === undefined ? DEFAULT_TYPES : readSome(where, value)
  for (const type of types) {
    if (TYPE.test(type)) continue
    throw optionError(where, type, "name media types: ['text/*', 'application/json']")
  }
  const patterns = types.map((type) => type.toLowerCase().split('/'))
  return (type) => {
    const [main = '', sub = ''] = type.split('/')
    return patterns.some(([mains = '', subs = '']) => isOf(main, mains) && isOf(sub, subs))
  }
}

/** Whether the type or the subtype of a media type matches `*`, `*+json` or an exact name. */
function isOf(part: string, pattern: string): boolean {
  if (part === '' || !pattern.startsWith('*')) return part !== '' && part === pattern
  return part.endsWith(pattern.slice(1))
}
