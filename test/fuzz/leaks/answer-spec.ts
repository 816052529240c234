// Responses of a handler as data: for all people, or about one person. A response about one person
// also says why it must not be shared. The 304 responses of a handler are here, too.

import type { Channel, Person } from './people.ts'

/**
 * The shields: each keeps a response about one person from other people. `option`: nothing in the
 * response does, so the cache options must.
 */
export const SHIELDS = [
  'private',
  'no-store',
  'no-cache',
  'own-control',
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
/** Values of Stampede-Cache-Control, which only this cache reads. */
export const OWN_SPELLINGS = ['private', 'max-age=60, no-store', 'no-cache="x"', 'private=""']
/** 304 to a request without a condition. With a condition the status is 401. */
export const CLOSED_STATUSES = [304, 401, 403, 407, 408, 421, 425, 429, 206, 500, 503]
export const PLACES = ['body', 'header', 'etag', 'reason', 'link', 'tags', 'echo'] as const
/** Fields that name purge tags. The first two are for caches only. */
export const TAG_FIELDS = ['Surrogate-Key', 'Cache-Tag', 'Cache-Groups'] as const
type Place = (typeof PLACES)[number]

export interface AnswerSpec {
  /** The channel that names the person. `undefined`: the response is for all. */
  readonly about: Channel | undefined
  readonly shield: Shield
  /** The spelling of a Cache-Control shield. */
  readonly spelling: string
  /** Places of the secret, apart from the body. */
  readonly places: readonly Place[]
  /** A Cache-Control member about freshness, or nothing. */
  readonly freshness: string | undefined
  readonly status: number
  /** Which writer sends it. */
  readonly way: string
  readonly delayMs: number
  /** When its client leaves before the end, the handler stops its work and fails. */
  readonly aborts: 'throws' | 'answers' | undefined
  /** The handler throws instead, and the error message names the person. */
  readonly throws: boolean
  /** Length of the padding in the body, in bytes. */
  readonly pad: number
  /** An unknown caller gets the same headers. */
  readonly shieldsAll: boolean
  /** Sends Vary or Cache-Control in two lines. */
  readonly twoLines: boolean
  readonly validator: Validator | undefined
  /** The response to a condition that its validator meets. `undefined`: the full response. */
  readonly unchanged: UnchangedSpec | undefined
  /** The field that names its tags. */
  readonly tagField: (typeof TAG_FIELDS)[number] | undefined
  /**
   * A field about this one request. It has the secret of the caller, also on a response for all.
   */
  readonly requestId: 'X-Request-Id' | 'Server-Timing' | 'RateLimit-Policy' | undefined
}

/** The caller as the handler knows it. */
export interface Asker {
  /** The recognised person. `undefined`: the response is for all, or the caller is unknown. */
  readonly person: Person | undefined
  /** 0: an unknown caller. */
  readonly rank: number
  /** The secret of the caller. */
  readonly caller: string
  readonly origin: string | undefined
  /** The host that X-Forwarded-Host claims. */
  readonly host: string | undefined
  /** The request has a condition. */
  readonly asks: boolean
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

/**
 * `date` is the same for all people, like the date of a template. The other validators are of one
 * representation.
 */
export const VALIDATORS = ['etag', 'weak', 'own-date', 'both', 'date'] as const
export type Validator = (typeof VALIDATORS)[number]

/** The shields of a 304 about one person, which keep it from other people. */
export const EXTRA_SHIELDS = [
  'private',
  'no-store',
  'no-cache',
  'own-control',
  'set-cookie',
  'vary-star',
  'vary-own',
  'cors',
  'expired',
  'other-etag',
  'option',
] as const
export type ExtraShield = (typeof EXTRA_SHIELDS)[number]

/** Fields about one person on the 304 of a response for all. */
export interface ExtraSpec {
  readonly about: Channel
  readonly shield: ExtraShield
  readonly spelling: string
}

export interface UnchangedSpec {
  /** `less`: without Cache-Control and Vary, if the validator is of one representation. */
  readonly says: 'all' | 'less'
  readonly extra: ExtraSpec | undefined
}

export function spellingsOf(shield: string): readonly string[] {
  if (shield === 'own-control') return OWN_SPELLINGS
  return shield in SPELLINGS ? SPELLINGS[shield as keyof typeof SPELLINGS] : ['']
}
