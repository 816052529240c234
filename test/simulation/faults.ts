// The faults: each begins, and most end some time later.

import { names } from '../../packages/redis/src/protocol/keys.ts'
import type { Random } from '../fuzz/leaks/random.ts'
import { exponential } from './chance.ts'
import type { Link } from './link.ts'
import type { SimRedis } from './sim-redis.ts'
import type { World } from './world.ts'

/**
 * Begins the fault, and returns the function that ends it. Nothing: it is over at once, or is
 * impossible now.
 */
type Fault = (world: World, random: Random) => (() => void) | undefined

const SHORT_MS = [50, 300, 1_500]
const LONG_MS = [800, 3_000, 7_000, 15_000]

export interface Kind {
  readonly name: string
  readonly forMs: readonly number[]
  readonly begin: Fault
}

/** A fault of one link. */
function onLink(change: (link: Link, random: Random) => void): Fault {
  return ({ members }, random) => {
    if (members.length === 0) return undefined
    const { link } = random.pick(members)
    change(link, random)
    return () => {
      Object.assign(link, { loss: 0, repeats: 0, delayMs: 0 })
      Object.assign(link.isCut, { commands: false, messages: false })
    }
  }
}

/** Half of the fleet is on the other side of a partition. */
const partition: Fault = ({ members }, random) => {
  const apart = random.shuffle(members).slice(0, Math.ceil(members.length / 2))
  for (const { link } of apart) Object.assign(link.isCut, { commands: true, messages: true })
  return () => {
    for (const { link } of apart) Object.assign(link.isCut, { commands: false, messages: false })
  }
}

/**
 * In addition, the server loses all data after the other half was cut off, as in a partial power
 * failure.
 */
const partitionWithLoss: Fault = (world, random) => {
  const heal = partition(world, random)
  const { kernel, server } = world
  kernel.after(random.pick([500, 2_000]) * (0.5 + random.next()), () => {
    if (server.mode !== 'up') return
    world.note('fault', 'redis restarts empty')
    server.crash()
    server.restart(true)
  })
  return heal
}

/** A fault of the server, if it has no other fault now. */
function onServer(
  begin: (world: World, random: Random) => void,
  end: (world: World) => void,
): Fault {
  return (world, random) => {
    const { server } = world
    if (server.mode !== 'up') return undefined
    begin(world, random)
    const { mode } = server
    return () => {
      if (server.mode === mode) end(world)
    }
  }
}

function mode(name: 'frozen' | 'refusing', end: (world: World) => void): Fault {
  return onServer(({ server }) => {
    server.mode = name
  }, end)
}

function crash(isEmpty: boolean): Fault {
  return onServer(
    ({ server }) => server.crash(),
    ({ server }) => server.restart(isEmpty),
  )
}

const killed: Fault = (world, random) => {
  if (world.members.length === 0) return undefined
  const member = random.pick(world.members)
  world.note(member.name, 'is killed')
  world.kill(member)
  return () => world.start()
}

function stopped(how: 'pause' | 'suspend'): Fault {
  return (world, random) => {
    const awake = world.members.filter((each) => each.isAwake)
    if (awake.length === 0) return undefined
    const member = random.pick(awake)
    world.note(member.name, how === 'pause' ? 'is paused' : 'is suspended')
    member[how]()
    return () => {
      if (!member.time.isPaused) return
      world.note(member.name, 'goes on')
      member.resume()
    }
  }
}

/**
 * A lagging replica takes over while only a new process reaches it, which knows of no purge. Its
 * own purge comes first, and gets a position ahead of those that all others know
 * (docs/decisions/0010).
 */
const forked: Fault = (world, random) => {
  const { kernel, server, members } = world
  if (server.mode !== 'up' || server.isDemoted) return undefined
  const apart = [...members]
  for (const { link } of apart) Object.assign(link.isCut, { commands: true, messages: true })
  server.failOver(random.pick([400, 3_000, 10_000]))
  const newcomer = world.start()
  const isCutAfter = random.chance(0.5)
  kernel.after(200, () => {
    newcomer.time.receive(() => {
      newcomer.stampede.purge({ tag: 'of nothing' }).then(
        () => {
          if (isCutAfter) cutLog(server, 0)
        },
        () => {},
      )
    })
  })
  return () => {
    for (const { link } of apart) Object.assign(link.isCut, { commands: false, messages: false })
    world.kill(newcomer)
  }
}

/** Records of the cache: no locks, no jobs, and not the log of purges. */
function recordsIn({ data }: SimRedis): string[] {
  return data.keys.filter((key) => /\{[=#](?![li]:)/.test(key))
}

/** Records that have variants: keys with the same hash tag, and more after it. */
function groupsIn(server: SimRedis): string[] {
  const records = recordsIn(server)
  const groups = new Set(records.map((key) => /^(.*\}):[\w-]{43}$/.exec(key)?.[1]))
  return records.filter((key) => groups.has(key))
}

function evict(server: SimRedis, keys: readonly string[]): void {
  for (const key of keys) server.perform('DEL', [key])
}

const [, LOG] = names('stampede').purges

function cutLog(server: SimRedis, most: number): void {
  server.perform('XTRIM', [LOG], ['MAXLEN', String(most)])
}

function demoted(isCutOff: boolean): Fault {
  return (world, random) => {
    const { server, members } = world
    if (server.mode !== 'up' || server.isDemoted) return undefined
    const some = random.shuffle(members).slice(0, Math.ceil(members.length / 2))
    const lagMs = random.pick([0, 0, 400])
    server.demote(new Set(some.map(({ name }) => name)), isCutOff, lagMs)
    return () => server.endDemotion()
  }
}

export const KINDS: readonly Kind[] = [
  { name: 'process killed', forMs: LONG_MS, begin: killed },
  { name: 'process paused', forMs: LONG_MS, begin: stopped('pause') },
  { name: 'process paused briefly', forMs: SHORT_MS, begin: stopped('pause') },
  { name: 'machine suspended', forMs: LONG_MS, begin: stopped('suspend') },
  {
    name: 'commands cut',
    forMs: LONG_MS,
    begin: onLink((link) => {
      link.isCut.commands = true
    }),
  },
  {
    name: 'messages cut',
    forMs: LONG_MS,
    begin: onLink((link) => {
      link.isCut.messages = true
    }),
  },
  {
    name: 'process cut off',
    forMs: LONG_MS,
    begin: onLink((link) => Object.assign(link.isCut, { commands: true, messages: true })),
  },
  { name: 'half the fleet cut off', forMs: LONG_MS, begin: partition },
  {
    name: 'half the fleet cut off, and redis restarted empty',
    forMs: LONG_MS,
    begin: partitionWithLoss,
  },
  {
    name: 'link loses and repeats',
    forMs: LONG_MS,
    begin: onLink((link, random) => {
      Object.assign(link, { loss: random.pick([0.05, 0.4]), repeats: 0.3, delayMs: 50 })
    }),
  },
  {
    name: 'link delays and reorders',
    forMs: LONG_MS,
    begin: onLink((link, random) => {
      link.delayMs = random.pick([100, 400, 3_000])
    }),
  },
  {
    name: 'redis frozen',
    forMs: [300, 2_000, 6_000],
    begin: mode('frozen', (w) => w.server.thaw()),
  },
  {
    name: 'redis refusing',
    forMs: SHORT_MS,
    begin: mode('refusing', ({ server }) => {
      server.mode = 'up'
    }),
  },
  {
    name: 'redis slow',
    forMs: LONG_MS,
    begin: ({ server }, random) => {
      server.slowMs = random.pick([30, 110, 200])
      return () => {
        server.slowMs = 0
      }
    },
  },
  { name: 'redis restarted', forMs: [100, 1_000, 5_000], begin: crash(false) },
  { name: 'redis restarted empty', forMs: [100, 1_000, 5_000], begin: crash(true) },
  {
    name: 'fail-over to a lagging replica',
    forMs: [0],
    begin: onServer(
      ({ server }, random) => server.failOver(random.pick([0, 20, 400, 3_000])),
      () => {},
    ),
  },
  {
    name: 'redis evicts groups',
    forMs: [0],
    begin: onServer(
      ({ server }, random) => {
        const groups = random.shuffle(groupsIn(server))
        evict(server, groups.slice(0, Math.ceil(groups.length / 2)))
      },
      () => {},
    ),
  },
  {
    name: 'redis evicts records',
    forMs: [0],
    begin: onServer(
      ({ server }, random) => evict(server, random.some(recordsIn(server), 0.3)),
      () => {},
    ),
  },
  { name: 'fail-over, and a newcomer purges first', forMs: [600, 1_500], begin: forked },
  { name: 'the master is demoted, and some stay with it', forMs: LONG_MS, begin: demoted(false) },
  { name: 'the master is cut off with some processes', forMs: LONG_MS, begin: demoted(true) },
  {
    name: 'the log of purges is cut',
    forMs: [0],
    begin: onServer(
      ({ server }, random) => cutLog(server, random.pick([0, 1, 5])),
      () => {},
    ),
  },
  {
    name: 'server clock forward',
    forMs: [0],
    begin: (world, random) => {
      world.setClock(random.pick([50, 2_000, 60_000]))
      return undefined
    },
  },
  {
    name: 'server clock back',
    forMs: [0],
    begin: (world, random) => {
      world.setClock(-random.pick([50, 2_000, 60_000]))
      return undefined
    },
  },
]

export interface Plague {
  readonly kinds: readonly Kind[]
  readonly everyMs: number
  /**
   * The chance that a fault soon causes another one, because faults with one cause come together.
   */
  readonly together: number
  /** In some episodes only one kind of fault occurs, because its traces show only in calm times. */
  readonly isAlone: boolean
}

/** The traces of these faults show only while no other fault hides them. */
const SHY = KINDS.flatMap((kind) => {
  if (kind.begin === forked) return [kind, kind, kind, kind]
  return /^(the master|redis evicts|link loses)/.test(kind.name) ? [kind] : []
})

export function makePlague(random: Random): Plague {
  if (random.chance(0.3)) {
    return { kinds: [random.pick(SHY)], everyMs: 15_000, together: 0, isAlone: true }
  }
  return {
    kinds: random.some(KINDS, random.pick([0.1, 0.3, 0.7])),
    everyMs: random.pick([2_000, 8_000, 30_000]),
    together: random.pick([0, 0.3, 0.6]),
    isAlone: false,
  }
}

/** The time between two faults that come together. */
const SOON_MS = 500

export interface PlannedFault {
  readonly index: number
  readonly at: number
  readonly kind: Kind
  readonly lastsMs: number
}

/** Faults of these kinds, one every `everyMs` on average, until `endAt`. */
export function planFaults(
  random: Random,
  { kinds, everyMs, together }: Plague,
  endAt: number,
): PlannedFault[] {
  const planned: PlannedFault[] = []
  if (kinds.length === 0) return planned
  for (let at = random.next() * everyMs; at < endAt; ) {
    const kind = random.pick(kinds)
    const lastsMs = random.pick(kind.forMs) * (0.5 + random.next())
    planned.push({ index: planned.length, at, kind, lastsMs })
    at += exponential(random, random.chance(together) ? SOON_MS : everyMs)
  }
  return planned
}

/** Starts the fault now. */
export function strike(world: World, { kind, lastsMs }: PlannedFault, random: Random): void {
  const { kernel } = world
  const { name, begin } = kind
  const end = begin(world, random)
  world.disturbedAt = kernel.now
  world.figures.count(name)
  world.note('fault', `${name}${end === undefined ? '' : ` for ${lastsMs.toFixed(0)} ms`}`)
  if (end === undefined) return
  kernel.after(lastsMs, () => {
    world.note('fault', `${name} is over`)
    world.disturbedAt = kernel.now
    end()
  })
}
