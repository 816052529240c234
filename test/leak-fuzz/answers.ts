// What a handler answers, as data: for all, or about one person; and if so, what in it says that it is not to be
// shared. `resolve` makes the status, the fields and the body of it.

import { type Channel, HEADER_OF, type Person } from './people.ts'

/** By what an answer about one person says that it is not for others. `option`: nothing in it; the options must do. */
export const SHIELDS = [
  'private',
  'no-store',
  'no-cache',
  'pragma',
  'set-cookie',
  'vary-star',
  'vary-own',
  'status',
  'cors',
  'event-stream',
  'silent',
  'expired',
  'layer-cookie',
  'option',
] as const
export type Shield = (typeof SHIELDS)[number]

export const SPELLINGS: Readonly<Record<'private' | 'no-store' | 'no-cache', readonly string[]>> = {
  private: [
    'private',
    'Private',
    'private="set-cookie"',
    'private=""',
    'public, private',
    '"private"',
  ],
  'no-store': ['no-store', 'No-Store', 'public; no-store', 'must-understand, no-store'],
  'no-cache': ['no-cache', 'NO-CACHE', 'no-cache="x-other"', 'no-cache=""'],
}
export const CLOSED_STATUSES = [401, 403, 407, 408, 421, 425, 429, 206, 500, 503]
export const PLACES = ['body', 'header', 'etag', 'reason', 'link'] as const
type Place = (typeof PLACES)[number]

export interface AnswerSpec {
  /** Whom it is about is read from here; `undefined`: it is for all. */
  readonly about: Channel | undefined
  readonly shield: Shield
  /** How a Cache-Control shield is spelt. */
  readonly spelling: string
  /** Where the secret is, besides the body. */
  readonly places: readonly Place[]
  /** What it says of its freshness: a Cache-Control member, or nothing. */
  readonly freshness: string | undefined
  readonly status: number
  /** How it is written: see the writers. */
  readonly way: string
  readonly delayMs: number
  /** The handler throws instead, and the message says whom it is about. */
  readonly throws: boolean
  /** Bytes of filling in the body. */
  readonly pad: number
  /** A caller who is nobody's gets the same headers, too. */
  readonly shieldsAll: boolean
  /** Vary or Cache-Control in two lines. */
  readonly twoLines: boolean
}

export interface Answer {
  readonly status: number
  readonly reason: string | undefined
  /** Repeated names are repeated pairs. */
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  readonly text: string
  readonly way: string
  readonly throws: boolean
}

export function publicText(route: number, pad: number): string {
  return `for everybody at r${route} ${'.'.repeat(pad)}`
}

/** `person` is whom the handler recognised; nobody, if the answer is for all. */
export function resolve(
  spec: AnswerSpec,
  route: number,
  person: Person | undefined,
  origin: string | undefined,
): Answer {
  const fields: Array<readonly [string, string]> = []
  const shielded = spec.about !== undefined && (person !== undefined || spec.shieldsAll)
  const control = controlOf(spec, shielded)
  if (spec.twoLines) for (const line of control) fields.push(['Cache-Control', line])
  else if (control.length > 0) fields.push(['Cache-Control', control.join(', ')])
  if (shielded) fields.push(...shieldFields(spec, person, origin))
  const { secret } = person ?? { secret: 'nobody' }
  if (person !== undefined && spec.places.includes('header')) fields.push(['X-Greeting', secret])
  if (person !== undefined && spec.places.includes('etag')) fields.push(['ETag', `"${secret}"`])
  if (person !== undefined && spec.places.includes('link')) fields.push(['Link', `</${secret}>`])
  const greeting = `r${route} greets ${secret} ${'.'.repeat(spec.pad)}`
  return {
    status: spec.shield === 'status' && !shielded ? 200 : spec.status,
    reason: person !== undefined && spec.places.includes('reason') ? `OK ${secret}` : undefined,
    fields,
    text: spec.about === undefined ? publicText(route, spec.pad) : greeting,
    way: spec.way,
    throws: spec.throws && (shielded || spec.about === undefined),
  }
}

function controlOf(spec: AnswerSpec, shielded: boolean): string[] {
  const { freshness, shield, spelling } = spec
  const says = freshness === undefined ? [] : [freshness]
  if (!shielded) return says
  if (shield in SPELLINGS) return [...says, spelling]
  if (shield === 'expired') return ['max-age=0']
  return shield === 'pragma' || shield === 'silent' ? [] : says
}

function shieldFields(
  spec: AnswerSpec,
  person: Person | undefined,
  origin: string | undefined,
): Array<readonly [string, string]> {
  switch (spec.shield) {
    case 'pragma':
      return [
        ['Pragma', 'no-cache'],
        ['Expires', new Date(Date.now() + 3_600_000).toUTCString()],
      ]
    case 'set-cookie':
      return [['Set-Cookie', `session=${person?.secret ?? 'none'}; HttpOnly`]]
    case 'vary-star':
      return spec.twoLines
        ? [
            ['Vary', 'Accept'],
            ['Vary', '*'],
          ]
        : [['Vary', 'Accept, *']]
    case 'vary-own':
      return varyOn(HEADER_OF[spec.about ?? 'sid'] ?? '*', spec.twoLines)
    case 'cors':
      return [['Access-Control-Allow-Origin', origin ?? '*']]
    case 'event-stream':
      return [['Content-Type', 'text/event-stream']]
    default:
      return []
  }
}

function varyOn(name: string, twoLines: boolean): Array<readonly [string, string]> {
  if (!twoLines) return [['Vary', name.toUpperCase()]]
  return [
    ['Vary', 'Accept'],
    ['Vary', `X-Other,  ${name}`],
  ]
}
