// Chooses the responses of a route: for all, or about the caller, with a reason why they are not
// shared.

import {
  type AnswerSpec,
  CLOSED_STATUSES,
  PLACES,
  SHIELDS,
  type Shield,
  spellingsOf,
} from './answer-spec.ts'
import { ABORTED } from './answers.ts'
import { type Ground, makeExtra, makeMarks } from './make-marks.ts'
import { CHANNELS, type Channel, HEADER_OF } from './people.ts'
import type { Random } from './random.ts'
import { heedsExpiry, keptApart, needsFreshness } from './rules.ts'
import { cachesOf, type FrameworkName, type Mood, type RouteSpec } from './scenario.ts'
import { waysOf } from './ways.ts'

export interface RouteGround extends Ground {
  /** The framework whose writers are used. */
  readonly framework: FrameworkName
  readonly isFront: boolean
  readonly mood: Mood
}

export function makeRoute(random: Random, ground: RouteGround): RouteSpec {
  const personal = random.chance(0.65)
  const channel = random.chance(0.7) ? ground.focus : random.pick(CHANNELS)
  const about = personal ? channel : undefined
  const pad = random.pick([0, 0, 0, 50, 3_000])
  const fitting = about === undefined ? [] : shieldsFor(ground, about)
  const aborts = random.chance(0.15) ? random.pick(['throws', 'answers'] as const) : undefined
  const common = { about, pad, way: random.pick(waysOf(ground.framework, personal)), aborts }
  const make = (shield: Shield) => personalAnswer(random, common, shield, ground)
  if (about !== undefined && ground.mood === 'fails') {
    const kept = fitting.find((shield) => shield === 'vary-own') ?? chooseShield(random, fitting)
    const answer = { ...make(kept), freshness: undefined }
    return { about, answers: [answer, ...Array.from({ length: 4 }, () => failing(make('status')))] }
  }
  const answers = Array.from({ length: random.chance(0.4) ? 1 : 2 + random.int(2) }, () =>
    about === undefined
      ? publicAnswer(random, common, ground)
      : make(chooseShield(random, fitting)),
  )
  // An occasional error, for which a stored response may be served.
  if (about !== undefined && random.chance(0.2)) answers.push(failing(make('status')))
  return { about, answers }
}

/** Shields that protect a response by themselves, given all caches that see the route. */
function shieldsFor({ layers, route, isFront }: RouteGround, channel: Channel): Shield[] {
  const caches = cachesOf(layers, route)
  const inHeader = HEADER_OF[channel] !== undefined && channel !== 'host'
  // The documentation says: layers around a front do not run again in a refresh.
  const front = isFront
    ? layers.findIndex((each) => each.kind === 'cache' && each.at === 'all')
    : -1
  const withCookie = layers.some(
    (each, i) => each.kind === 'session' && each.at.includes(route) && i > front,
  )
  const only: Partial<Record<Shield, boolean>> = {
    'vary-own': inHeader,
    cors: channel === 'origin',
    silent: caches.every(needsFreshness),
    expired: caches.every(heedsExpiry),
    'layer-cookie': withCookie,
    option: caches.every((cache) => keptApart(cache, channel) !== undefined),
  }
  return SHIELDS.filter((shield) => only[shield] ?? true)
}

/**
 * Prefers rare shields, and shields with which a response may be stored. Mistakes are easiest
 * there, and the latter give hits.
 */
function chooseShield(random: Random, fitting: readonly Shield[]): Shield {
  const kept = fitting.filter((shield) => shield === 'option' || shield === 'vary-own')
  const rare = fitting.filter((shield) => RARE.includes(shield))
  if (rare.length > 0 && random.chance(0.35)) return random.pick(rare)
  if (kept.length > 0 && random.chance(0.65)) return random.pick(kept)
  return random.pick(fitting)
}

/** Shields that only some apps make possible. */
const RARE: readonly Shield[] = ['layer-cookie', 'silent', 'cors']

function failing(answer: AnswerSpec): AnswerSpec {
  return { ...answer, status: 503 }
}

type Common = Pick<AnswerSpec, 'about' | 'pad' | 'way' | 'aborts'>

const FRESH = ['max-age=60', 's-maxage=3', 'public, max-age=2', 'max-age=1']
const DELAYS = [0, 0, 1, 3, 6]
/** Longer than some clients stay. */
const LONG_DELAYS = [4, 8, 12]

function publicAnswer(random: Random, common: Common, ground: RouteGround): AnswerSpec {
  const fails = random.chance(0.08)
  const marks = makeMarks(random, 'option', ground.mood)
  const extra = random.chance(0.6) ? makeExtra(random, ground) : undefined
  return {
    ...common,
    shield: 'option',
    spelling: '',
    places: [],
    freshness: random.chance(0.8) ? random.pick(FRESH) : undefined,
    status: fails ? 503 : random.pick([200, 200, 200, 200, 203, 404]),
    delayMs: random.pick(common.aborts ? LONG_DELAYS : DELAYS),
    throws: fails && random.chance(0.5),
    shieldsAll: false,
    twoLines: random.chance(0.2),
    ...marks,
    unchanged: marks.unchanged && { ...marks.unchanged, extra },
  }
}

function personalAnswer(
  random: Random,
  common: Common,
  shield: Shield,
  { framework, mood }: RouteGround,
): AnswerSpec {
  const closed = CLOSED_STATUSES.filter((each) => !common.aborts || each !== ABORTED)
  const status = shield === 'status' ? random.pick(closed) : 200
  return {
    ...common,
    way: random.chance(0.5) ? common.way : random.pick(waysOf(framework, true)),
    shield,
    spelling: random.pick(spellingsOf(shield)),
    places: random.some(PLACES, 0.25),
    freshness: random.chance(0.85) ? random.pick(FRESH) : undefined,
    status,
    delayMs: random.pick(common.aborts ? LONG_DELAYS : DELAYS),
    throws: status >= 500 && random.chance(0.6),
    shieldsAll: random.chance(0.5),
    twoLines: random.chance(0.3),
    ...makeMarks(random, shield, mood),
  }
}
