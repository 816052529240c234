// What a handler answers, as data: for all, or about one person; and if so, what in it says that it is not to be
// shared. Also what a 304 of it says.

import type { Channel, Person } from './people.ts'

/** By what an answer about one person says that it is not for others. `option`: nothing in it; the options must do. */
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
/** What an answer says to this cache alone. */
export const OWN_SPELLINGS = ['private', 'max-age=60, no-store', 'no-cache="x"', 'private=""']
/** 304 where nothing was asked; where something was, 401. */
export const CLOSED_STATUSES = [304, 401, 403, 407, 408, 421, 425, 429, 206, 500, 503]
export const PLACES = ['body', 'header', 'etag', 'reason', 'link', 'tags', 'echo'] as const
/** For purges; the first two are for caches only. */
export const TAG_FIELDS = ['Surrogate-Key', 'Cache-Tag', 'Cache-Groups'] as const
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
  /** The handler gives up its work, and fails, when its client leaves before the end. */
  readonly aborts: 'throws' | 'answers' | undefined
  /** The handler throws instead, and the message says whom it is about. */
  readonly throws: boolean
  /** Bytes of filling in the body. */
  readonly pad: number
  /** A caller who is nobody's gets the same headers, too. */
  readonly shieldsAll: boolean
  /** Vary or Cache-Control in two lines. */
  readonly twoLines: boolean
  readonly validator: Validator | undefined
  /** How it answers a condition that its validator meets; `undefined`: with the whole. */
  readonly unchanged: UnchangedSpec | undefined
  /** Where it names its tags. */
  readonly tagField: (typeof TAG_FIELDS)[number] | undefined
  /** A field of this one request has the secret of whoever asks, also of an answer that is for all. */
  readonly requestId: 'X-Request-Id' | 'Server-Timing' | 'RateLimit-Policy' | undefined
}

/** Who asks, as the handler knows. */
export interface Asker {
  /** Whom it recognised; nobody, if the answer is for all. */
  readonly person: Person | undefined
  /** 0: nobody. */
  readonly rank: number
  /** The secret of whoever it is. */
  readonly caller: string
  readonly origin: string | undefined
  /** What it says that the host is. */
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

/** `date` is the same for everybody, as the date of a template is; the others are of one representation. */
export const VALIDATORS = ['etag', 'weak', 'own-date', 'both', 'date'] as const
export type Validator = (typeof VALIDATORS)[number]

/** By what a 304 with something about one person says that it is not to be shared. */
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

/** On the 304 of an answer that is for all. */
export interface ExtraSpec {
  readonly about: Channel
  readonly shield: ExtraShield
  readonly spelling: string
}

export interface UnchangedSpec {
  /** `less`: neither Cache-Control nor Vary, where the validator is of one representation. */
  readonly says: 'all' | 'less'
  readonly extra: ExtraSpec | undefined
}

export function spellingsOf(shield: string): readonly string[] {
  if (shield === 'own-control') return OWN_SPELLINGS
  return shield in SPELLINGS ? SPELLINGS[shield as keyof typeof SPELLINGS] : ['']
}
