// Content codings (RFC 9110 §8.4 and §12.5.3): the form of a stored response that a client is sent,
// and its fields. A coded form is another representation: it varies by Accept-Encoding, and a
// strong entity tag of its own tells it apart.

import type { Fields } from './fields.ts'
import { trimOws } from './headers.ts'

export type Coding = 'br' | 'zstd' | 'gzip'

/** RFC 9110 §12.5.3: of `offered`, what this Accept-Encoding takes, best first; of equals, as they were offered. */
export function acceptedCodings(
  accept: string | undefined,
  offered: readonly Coding[],
): readonly Coding[] {
  if (accept === undefined) return []
  const weights = weightsOf(accept)
  const weightOf = (coding: string): number => weights.get(coding) ?? weights.get('*') ?? 0
  // What is not coded is taken unless it is refused, and is only preferred where a client says so.
  const plain = weights.get('identity') ?? 0
  const taken = offered.filter((coding) => weightOf(coding) > 0 && weightOf(coding) >= plain)
  return taken.sort((a, b) => weightOf(b) - weightOf(a))
}

const MEMBER = /^([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/** What cannot be read is as if it were not said. `x-gzip` is `gzip` (§8.4.1.3). */
function weightsOf(accept: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>()
  for (const member of accept.toLowerCase().split(',')) {
    const [, coding, weight] = MEMBER.exec(trimOws(member)) ?? []
    if (coding === undefined) continue
    const name = coding === 'x-gzip' ? 'gzip' : coding
    // Contradictions are read the careful way.
    weights.set(name, Math.min(Number(weight ?? 1), weights.get(name) ?? 1))
  }
  return weights
}

/** What says that the bytes are coded already, are of a part, or are vouched for as they are. */
const AS_IT_IS: ReadonlySet<string> = new Set([
  ...['content-encoding', 'content-range', 'content-md5', 'digest', 'content-digest'],
  ...['repr-digest', 'signature', 'signature-input'],
])

/** Whether a response may be coded: of a type that `matches`, and not said to stay as it is (RFC 9110 §7.7). */
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
    if (AS_IT_IS.has(name)) return false
    if (name === 'cache-control' && /no-transform/i.test(value)) return false
    if (name === 'content-type') type = value
  }
  return matches(trimOws(type.split(';', 1)[0] ?? '').toLowerCase())
}

/** The fields of one form of a response: coded, or, without `coding`, as it is beside coded ones. */
export function fieldsOfForm(fields: Fields, coding?: Coding): Fields {
  const form: string[] = []
  const vary: string[] = []
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (name === 'vary') vary.push(value)
    else form.push(name, name === 'etag' && coding !== undefined ? codedTag(value, coding) : value)
  }
  if (coding !== undefined) form.push('content-encoding', coding)
  form.push('vary', varied(vary))
  return form
}

function varied(lines: readonly string[]): string {
  const names = lines.join(', ')
  if (names === '') return 'Accept-Encoding'
  return /(?:^|,)[ \t]*(?:accept-encoding|\*)[ \t]*(?:,|$)/i.test(names)
    ? names
    : `${names}, Accept-Encoding`
}

const STRONG_TAG = /^"([\x21\x23-\x7e\x80-\xff]*)"$/

/** RFC 9110 §8.8.3: a strong tag is of one form only; a weak one may stand for all that mean the same. */
export function codedTag(tag: string, coding: Coding): string {
  const [, opaque] = STRONG_TAG.exec(tag) ?? []
  return opaque === undefined ? tag : `"${opaque}-${coding}"`
}
