// The parser of Cache-Control. An ambiguous field gets its more restrictive meaning (RFC 9111
// §4.2.1), because the other meaning could leak a private response.

/**
 * The Cache-Control directives of a response that this cache uses. An absent directive is false or
 * undefined. `must-understand` is not used: RFC 9111 §5.2.2.3 would allow a cache to ignore
 * `no-store` beside it.
 */
export interface CacheControl {
  /** Whether the response has a Cache-Control field, even an empty one. */
  readonly present: boolean
  readonly noStore: boolean
  /** A qualified form (`no-cache="x"`) counts as unqualified. The same holds for `private`. */
  readonly noCache: boolean
  readonly private: boolean
  readonly mustRevalidate: boolean
  readonly proxyRevalidate: boolean
  readonly maxAgeS: number | undefined
  readonly sMaxageS: number | undefined
  readonly staleWhileRevalidateS: number | undefined
  readonly staleIfErrorS: number | undefined
}

/** RFC 9111 §1.2.2: larger numbers of seconds are replaced by this one. */
export const LARGEST_SECONDS: number = 2 ** 31

type Flag = keyof {
  [K in keyof CacheControl as CacheControl[K] extends boolean ? K : never]: true
}
type Seconds = Exclude<keyof CacheControl, Flag>

export const FLAGS: ReadonlyMap<string, Flag> = new Map<string, Flag>([
  ['no-store', 'noStore'],
  ['no-cache', 'noCache'],
  ['private', 'private'],
  ['must-revalidate', 'mustRevalidate'],
  ['proxy-revalidate', 'proxyRevalidate'],
])

export const SECONDS: ReadonlyMap<string, Seconds> = new Map<string, Seconds>([
  ['max-age', 'maxAgeS'],
  ['s-maxage', 'sMaxageS'],
  ['stale-while-revalidate', 'staleWhileRevalidateS'],
  ['stale-if-error', 'staleIfErrorS'],
])

/**
 * A directive in one of the forms `name`, `name=value` and `name="quoted, value"`. All other text
 * is a separator. So directives also count in `public; private`, in `"no-store"`, and after a quote
 * that is never closed.
 */
const DIRECTIVE = /([\w-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?/g

type Mutable = { -readonly [K in keyof CacheControl]: CacheControl[K] }

export function noDirectives(present: boolean): Mutable {
  return {
    present,
    noStore: false,
    noCache: false,
    private: false,
    mustRevalidate: false,
    proxyRevalidate: false,
    maxAgeS: undefined,
    sMaxageS: undefined,
    staleWhileRevalidateS: undefined,
    staleIfErrorS: undefined,
  }
}

/**
 * Parses Cache-Control of a response (RFC 9111 §5.2.2, RFC 5861 §3 and §4). `values`
 * has one element per line of the field.
 */
export function parseCacheControl(values: readonly string[]): CacheControl {
  const read = noDirectives(values.length > 0)
  for (const line of values) {
    for (const [name, value] of directivesOf(line)) {
      const flag = FLAGS.get(name)
      if (flag !== undefined) read[flag] = true
      const seconds = SECONDS.get(name)
      if (seconds === undefined) continue
      read[seconds] = Math.min(read[seconds] ?? LARGEST_SECONDS, deltaSeconds(value) ?? 0)
    }
  }
  return read
}

/** The directives of one line, with lower-case names, and values without quotes. */
export function* directivesOf(line: string): Generator<[name: string, value: string | undefined]> {
  for (const [, name = '', quoted, token] of line.matchAll(DIRECTIVE)) {
    yield [name.toLowerCase(), quoted ?? token]
  }
}

/** RFC 9111 §1.2.2: a number of seconds. Undefined for text with other characters than digits. */
export function deltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d+$/.test(text)) return undefined
  return Math.min(Number(text), LARGEST_SECONDS)
}
