// Chooses validators, tags and fields of one request for a response, and how it responds to a
// condition.

import {
  type AnswerSpec,
  EXTRA_SHIELDS,
  type ExtraShield,
  type ExtraSpec,
  type Shield,
  spellingsOf,
  TAG_FIELDS,
  VALIDATORS,
} from './answer-spec.ts'
import { CHANNELS, type Channel, HEADER_OF } from './people.ts'
import type { Random } from './random.ts'
import { heedsExpiry, keptApart } from './rules.ts'
import { cachesOf, type LayerSpec, type Mood } from './scenario.ts'

export interface Ground {
  readonly route: number
  readonly focus: Channel
  readonly layers: readonly LayerSpec[]
}

type Marks = Pick<AnswerSpec, 'validator' | 'unchanged' | 'tagField' | 'requestId'>

/**
 * The 304 of these says nothing that keeps the full response apart. So only a client with the very
 * same representation may get it.
 */
const SILENT_AS_304: readonly Shield[] = ['silent', 'pragma']

export function makeMarks(random: Random, shield: Shield, mood: Mood): Marks {
  const fitting = VALIDATORS.filter((each) => each !== 'date' || !SILENT_AS_304.includes(shield))
  const validator = random.chance(mood === 'asks' ? 0.95 : 0.5) ? random.pick(fitting) : undefined
  const says = validator !== 'date' && random.chance(0.4) ? 'less' : 'all'
  return {
    validator,
    unchanged: random.chance(0.85) ? { says, extra: undefined } : undefined,
    tagField: random.chance(0.3) ? random.pick(TAG_FIELDS) : undefined,
    requestId: random.chance(0.2)
      ? random.pick(['X-Request-Id', 'Server-Timing', 'RateLimit-Policy'] as const)
      : undefined,
  }
}

/** Fields about the caller on a 304 to a response for all. */
export function makeExtra(random: Random, ground: Ground): ExtraSpec {
  const about = random.chance(0.7) ? ground.focus : random.pick(CHANNELS)
  const caches = cachesOf(ground.layers, ground.route)
  const only: Partial<Record<ExtraShield, boolean>> = {
    'vary-own': HEADER_OF[about] !== undefined && about !== 'host',
    cors: about === 'origin',
    expired: caches.every(heedsExpiry),
    option: caches.every((cache) => keptApart(cache, about) !== undefined),
  }
  const shield = random.pick(EXTRA_SHIELDS.filter((each) => only[each] ?? true))
  return { about, shield, spelling: random.pick(spellingsOf(shield)) }
}
