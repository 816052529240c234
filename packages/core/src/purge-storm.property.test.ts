// Random schedules of purges, requests and slow origins, with lost, late, repeated and reordered
// messages, and isolated processes. A request later than the bound after a purge gets no older
// value, and every request gets a result.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createStampede, type PurgeTarget, type Stampede } from './index.ts'
import { CONFIRMED_FOR_MS } from './ports/store.ts'
import { runs } from './testing/hostile.ts'
import { ManualClock } from './testing/index.ts'
import { type NetworkMember, PurgeNetwork } from './testing/purge-network.ts'

const PROCESSES = 2
const KEYS = ['k0', 'k1']

type Step =
  | { do: 'get'; at: number; key: number; originMs: number; swr: boolean }
  | {
      do: 'purge'
      at: number
      key: number
      by: 'key' | 'tag' | 'shared tag' | 'all'
      soft: boolean
    }
  | { do: 'cut'; at: number; what: NetworkMember['cut'] }
  | { do: 'advance'; ms: number }

const at = fc.nat(PROCESSES - 1)
const key = fc.nat(KEYS.length - 1)
const STEP: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('get' as const),
      at,
      key,
      originMs: fc.constantFrom(0, 50, 900, 7_000),
      swr: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('purge' as const),
      at,
      key,
      by: fc.constantFrom('key' as const, 'tag' as const, 'shared tag' as const, 'all' as const),
      soft: fc.constant(false),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('cut' as const),
      at,
      what: fc.constantFrom('no' as const, 'bus' as const, 'all' as const, 'all' as const),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      ms: fc.constantFrom(1, 40, 700, 2_100, 5_000, 6_000),
    }),
  },
)

interface Answered {
  readonly process: number
  readonly key: number
  readonly askedAt: number
  readonly version: number
}

interface Purged {
  readonly process: number
  readonly keys: readonly number[]
  readonly doneAt: number
  /** The versions before the purge. */
  readonly versions: readonly number[]
}

class World {
  readonly clock: ManualClock
  readonly answers: Answered[] = []
  readonly purges: Purged[] = []
  asked = 0
  readonly #members: NetworkMember[]
  readonly #stampedes: Stampede[]
  /** The current version of each key at the origin. */
  readonly #versions = KEYS.map(() => 1)

  constructor(random: () => number) {
    this.clock = new ManualClock(random)
    const network = new PurgeNetwork(
      this.clock,
      () => fateOf(random),
      () => (random() < 0.5 ? 0 : random() * 60),
    )
    this.#members = Array.from({ length: PROCESSES }, () => network.member())
    this.#stampedes = this.#members.map((store) => createStampede({ store, clock: this.clock }))
  }

  async take(step: Step): Promise<void> {
    if (step.do === 'advance') return this.clock.advance(step.ms)
    if (step.do === 'cut') {
      const member = this.#members[step.at]
      if (member !== undefined) member.cut = step.what
      return
    }
    if (step.do === 'get') this.#get(step)
    else void this.#purge(step)
  }

  #get({ at, key, originMs, swr }: Extract<Step, { do: 'get' }>): void {
    const askedAt = this.clock.now()
    const name = KEYS[key] ?? ''
    this.asked += 1
    const factory = async (): Promise<number> => {
      const version = this.#versions[key] ?? 0
      if (originMs > 0) await new Promise<void>((done) => this.clock.setTimer(originMs, done))
      return version
    }
    const options = {
      ttlMs: 60_000,
      staleWhileRevalidateMs: swr ? 60_000 : 0,
      tags: [name, 'all of them'],
    }
    this.#stampedes[at]?.getOrSet(name, factory, options).then(
      (version) => this.answers.push({ process: at, key, askedAt, version }),
      () => this.answers.push({ process: at, key, askedAt, version: Number.POSITIVE_INFINITY }),
    )
  }

  async #purge({ at, key, by, soft }: Extract<Step, { do: 'purge' }>): Promise<void> {
    const keys = by === 'key' || by === 'tag' ? [key] : KEYS.map((_, i) => i)
    const versions = KEYS.map((_, i) => this.#versions[i] ?? 0)
    // Changes the data before the purge, as the documentation says.
    for (const each of keys) this.#versions[each] = (this.#versions[each] ?? 0) + 1
    try {
      await this.#stampedes[at]?.purge(targetOf(by, key), { soft })
      this.purges.push({ process: at, keys, doneAt: this.clock.now(), versions })
    } catch {
      // Not acknowledged, so nothing was promised.
    }
  }

  async end(): Promise<void> {
    for (const member of this.#members) member.cut = 'no'
    await this.clock.advance(120_000)
    await Promise.all(this.#stampedes.map((stampede) => stampede.close()))
  }
}

function targetOf(by: Extract<Step, { do: 'purge' }>['by'], key: number): PurgeTarget {
  if (by === 'all') return { all: true }
  if (by === 'key') return { key: KEYS[key] ?? '' }
  return { tag: by === 'tag' ? (KEYS[key] ?? '') : 'all of them' }
}

/** One copy that is late, two copies, one that is much later, or none. */
function fateOf(random: () => number): readonly number[] {
  const draw = random()
  if (draw < 0.2) return []
  if (draw < 0.4) return [random() * 20, random() * 3_000]
  return [draw < 0.6 ? random() * 4_000 : random() * 20]
}

/** Random numbers from 0 to 1, the same for the same seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

function tooOld({ answers, purges }: World): Array<{ answer: Answered; purge: Purged }> {
  return purges.flatMap((purge) =>
    answers
      .filter(({ process, key, askedAt, version }) => {
        if (!purge.keys.includes(key) || version > (purge.versions[key] ?? 0)) return false
        // The purging process knows its own purge at once.
        const boundMs = process === purge.process ? 0 : CONFIRMED_FOR_MS
        return askedAt >= purge.doneAt + boundMs && askedAt > purge.doneAt
      })
      .map((answer) => ({ answer, purge })),
  )
}

describe('a random schedule of purges', () => {
  it('leaves no process with an older value later than the bound', async () => {
    let counted = { answers: 0, purges: 0 }
    await fc.assert(
      fc.asyncProperty(
        fc.array(STEP, { minLength: 10, maxLength: 60 }),
        fc.integer(),
        async (steps, seed) => {
          const world = new World(seeded(seed))
          for (const step of steps) await world.take(step)
          await world.end()
          expect(world.answers).toHaveLength(world.asked)
          expect(tooOld(world)).toEqual([])
          const { answers, purges } = counted
          counted = {
            answers: answers + world.answers.length,
            purges: purges + world.purges.length,
          }
        },
      ),
      runs(400),
    )
    expect(counted.purges).toBeGreaterThan(100)
    expect(counted.answers).toBeGreaterThan(500)
  }, 60_000)
})
