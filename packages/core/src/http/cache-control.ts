// The Cache-Control field, of a response above all: syntax only, no policy. Whatever can be read in two ways is
// read in the more restrictive one (RFC 9111 §4.2.1), because the other way leaks.

/** What a response says about its use. Absent numbers were not said. */
export interface CacheControl {
  /** Whether there was any Cache-Control line at all, however empty. */
  readonly present: boolean
  readonly noStore: boolean
  /** Qualified forms (`no-cache="x"`) count as unqualified, here and in `private`. */
  readonly noCache: boolean
  readonly private: boolean
  readonly public: boolean
  readonly mustRevalidate: boolean
  readonly proxyRevalidate: boolean
  /** Read, but it never lifts `no-store`, although RFC 9111 §5.2.2.3 would let it. */
  readonly mustUnderstand: boolean
  readonly noTransform: boolean
  readonly immutable: boolean
  readonly maxAgeS: number | undefined
  readonly sMaxageS: number | undefined
  readonly staleWhileRevalidateS: number | undefined
  readonly staleIfErrorS: number | undefined
}

/** RFC 9111 §1.2.2: what an overflowing number of seconds is taken for. */
export const LARGEST_SECONDS: number = 2 ** 31

type Flag = keyof {
  [K in keyof CacheControl as CacheControl[K] extends boolean ? K : never]: true
}
type Seconds = Exclude<keyof CacheControl, Flag>

const FLAGS: ReadonlyMap<string, Flag> = new Map<string, Flag>([
  ['no-store', 'noStore'],
  ['no-cache', 'noCache'],
  ['private', 'private'],
  ['public', 'public'],
  ['must-revalidate', 'mustRevalidate'],
  ['proxy-revalidate', 'proxyRevalidate'],
  ['must-understand', 'mustUnderstand'],
  ['no-transform', 'noTransform'],
  ['immutable', 'immutable'],
])

const SECONDS: ReadonlyMap<string, Seconds> = new Map<string, Seconds>([
  ['max-age', 'maxAgeS'],
  ['s-maxage', 'sMaxageS'],
  ['stale-while-revalidate', 'staleWhileRevalidateS'],
  ['stale-if-error', 'staleIfErrorS'],
])

/**
 * A directive wherever one can be read: `name`, `name=value` or `name="quoted, value"`. Anything else
 * separates, so that `public; private`, `"no-store"` and an unterminated quote still count.
 */
const DIRECTIVE = /([\w-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?/g

/** RFC 9111 §5.2.2, RFC 5861 §3 and §4, RFC 8246 §2. One element per line of the field. */
export function parseCacheControl(values: readonly string[]): CacheControl {
  const read: { -readonly [K in keyof CacheControl]: CacheControl[K] } = {
    present: values.length > 0,
    noStore: false,
    noCache: false,
    private: false,
    public: false,
    mustRevalidate: false,
    proxyRevalidate: false,
    mustUnderstand: false,
    noTransform: false,
    immutable: false,
    maxAgeS: undefined,
    sMaxageS: undefined,
    staleWhileRevalidateS: undefined,
    staleIfErrorS: undefined,
  }
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

/** The directives of one line, names lower-case, values without their quotes. */
export function* directivesOf(line: string): Generator<[name: string, value: string | undefined]> {
  for (const [, name = '', quoted, token] of line.matchAll(DIRECTIVE)) {
    yield [name.toLowerCase(), quoted ?? token]
  }
}

/** RFC 9111 §1.2.2: digits and nothing else; `undefined` for all that is not. */
export function deltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d+$/.test(text)) return undefined
  return Math.min(Number(text), LARGEST_SECONDS)
}
