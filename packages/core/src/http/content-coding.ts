// Content codings (RFC 9110 §12.5.3): which ones a client accepts. Fields that lead a handler to
// the same choice have one normal form.

import { Recent } from '../recent.ts'
import { detachedText, trimOws } from './headers.ts'

/**
 * The codings between which handlers choose, and the uncompressed body. Newest first: a client that
 * accepts one of them mostly accepts the later ones, too.
 */
const CHOICES: readonly string[] = ['zstd', 'br', 'gzip', 'identity']

type Weights = ReadonlyMap<string, number>

interface AcceptEncoding {
  /** Undefined if a member is malformed, or if one coding is both accepted and refused. */
  readonly weights: Weights | undefined
  /** Undefined if only the same field is sure to get the same response. */
  readonly normal: string | undefined
}

/**
 * One spelling for fields that accept the same `CHOICES` in the same order of preference. Undefined
 * if parsers disagree about the field, or if it accepts only other codings, such as `deflate`.
 */
export function normaliseCodings(accept: string): string | undefined {
  return parse(accept).normal
}

/**
 * Whether the client accepts a coding. Undefined if parsers disagree. `x-gzip` is gzip (§8.4.1.3).
 */
export function acceptsCoding(accept: string, coding: string): boolean | undefined {
  const { weights } = parse(accept)
  if (weights === undefined) return undefined
  const names = coding === 'gzip' || coding === 'x-gzip' ? ['gzip', 'x-gzip'] : [coding]
  const named = names.flatMap((name) => weights.get(name) ?? [])
  return (named.length > 0 ? named : [weights.get('*') ?? 0]).every((weight) => weight > 0)
}

const MEMBER = /^([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

function weightsOf(accept: string): Weights | undefined {
  const weights = new Map<string, number>()
  for (const member of accept.toLowerCase().split(',')) {
    const text = trimOws(member)
    if (text === '') continue
    const [, coding, q = 1] = MEMBER.exec(text) ?? []
    if (coding === undefined) return undefined
    const weight = Number(q)
    const before = weights.get(coding) ?? weight
    if (before > 0 !== weight > 0) return undefined
    weights.set(coding, Math.min(before, weight))
  }
  return weights
}

function normalOf(weights: Weights): string | undefined {
  const rest = weights.get('*') ?? 0
  const weightOf = (name: string) => weights.get(name) ?? (name === 'identity' ? 0 : rest)
  const accepted = CHOICES.filter((name) => weightOf(name) > 0)
  const ranked = accepted.toSorted((a, b) => weightOf(b) - weightOf(a))
  const isUsual = ranked.join() === accepted.join()
  const members = isUsual
    ? accepted.filter((name) => name !== 'identity')
    : ranked.map((name, i) => `${name};q=0.${9 - i}`)
  const others = [...weights].filter(([name, weight]) => weight > 0 && name !== 'identity')
  if (members.length === 0 && others.length > 0) return undefined
  // A handler may refuse a client that accepts no uncompressed body.
  if ((weights.get('identity') ?? weights.get('*')) === 0) members.push('identity;q=0')
  return members.join(', ')
}

/** Longer fields are rare, and are parsed for each request. */
const LONGEST_KEPT = 64
/** Limit of parsed fields. Clients send few different ones. */
const MOST_KEPT = 100
const recent = new Recent<AcceptEncoding>(MOST_KEPT)

function parse(accept: string): AcceptEncoding {
  const known = recent.get(accept)
  if (known !== undefined) return known
  const weights = weightsOf(accept)
  const parsed = { weights, normal: weights && normalOf(weights) }
  if (accept.length <= LONGEST_KEPT) recent.set(detachedText(accept), parsed)
  return parsed
}
