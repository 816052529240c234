// Content codings (RFC 9110 §8.4 and §12.5.3). A stored response has an uncompressed form and may
// have compressed forms. Each form is a representation of its own: it varies by Accept-Encoding,
// and a strong ETag differs between forms.

import type { Fields } from './fields.ts'
import { trimOws } from './headers.ts'

export type Coding = 'br' | 'zstd' | 'gzip'

/**
 * RFC 9110 §12.5.3: the codings in `offered` that the client accepts, sorted by its preference.
 * Codings with equal weights are in the order of `offered`.
 */
export function acceptedCodings(
  accept: string | undefined,
  offered: readonly Coding[],
): readonly Coding[] {
  if (accept === undefined) return []
  const weights = weightsOf(accept)
  const weightOf = (coding: string): number => weights.get(coding) ?? weights.get('*') ?? 0
  // An uncompressed body is preferred only if the client gives `identity` a higher weight.
  const plain = weights.get('identity') ?? 0
  const accepted = offered.filter((coding) => weightOf(coding) > 0 && weightOf(coding) >= plain)
  return accepted.sort((a, b) => weightOf(b) - weightOf(a))
}

const MEMBER = /^([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/** Weight of each coding. A malformed member is ignored. `x-gzip` is `gzip` (§8.4.1.3). */
function weightsOf(accept: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>()
  for (const member of accept.toLowerCase().split(',')) {
    const [, coding, weight] = MEMBER.exec(trimOws(member)) ?? []
    if (coding === undefined) continue
    const name = coding === 'x-gzip' ? 'gzip' : coding
    // If a coding is repeated, its lowest weight counts.
    weights.set(name, Math.min(Number(weight ?? 1), weights.get(name) ?? 1))
  }
  return weights
}

/** Fields of responses that must not be compressed. They are coded or partial, or have a digest. */
const NOT_CODABLE: ReadonlySet<string> = new Set([
  ...['content-encoding', 'content-range', 'content-md5', 'digest', 'content-digest'],
  ...['repr-digest', 'signature', 'signature-input'],
])

/**
 * Whether a response may be compressed. Its media type must match, and it must not have
 * `no-transform` (RFC 9110 §7.7) or a field of `NOT_CODABLE`.
 */
export function isCodable(
  status: number,
  fields: Fields,
  matches: (type: string) => boolean,
): boolean {
  if (status !== 200) return false
  let type = ''
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (NOT_CODABLE.has(name)) return false
    if (name === 'cache-control' && /no-transform/i.test(value)) return false
    if (name === 'content-type') type = value
  }
  return matches(trimOws(type.split(';', 1)[0] ?? '').toLowerCase())
}

/** The fields of one form of a response. Without `coding`, those of the uncompressed form. */
export function formFields(fields: Fields, coding?: Coding): Fields {
  const form: string[] = []
  const vary: string[] = []
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (name === 'vary') vary.push(value)
    else form.push(name, name === 'etag' && coding !== undefined ? codedEtag(value, coding) : value)
  }
  if (coding !== undefined) form.push('content-encoding', coding)
  form.push('vary', withAcceptEncoding(vary))
  return form
}

function withAcceptEncoding(lines: readonly string[]): string {
  const names = lines.join(', ')
  if (names === '') return 'Accept-Encoding'
  return /(?:^|,)[ \t]*(?:accept-encoding|\*)[ \t]*(?:,|$)/i.test(names)
    ? names
    : `${names}, Accept-Encoding`
}

const STRONG_TAG = /^"([\x21\x23-\x7e\x80-\xff]*)"$/

/** RFC 9110 §8.8.3: a strong ETag identifies one form, so it gets a suffix. A weak one does not. */
export function codedEtag(tag: string, coding: Coding): string {
  const [, opaque] = STRONG_TAG.exec(tag) ?? []
  return opaque === undefined ? tag : `"${opaque}-${coding}"`
}
