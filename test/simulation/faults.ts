// What goes wrong: each fault begins, and most of them end some time later.

import type { Random } from '../leak-fuzz/random.ts'
import type { World } from './world.ts'

/** Returns how it ends; nothing, if it is over at once or cannot be now. */
type Fault = (world: World) => (() => void) | undefined

const SHORT_MS = [50, 300, 1_500]
const LONG_MS = [800, 3_000, 7_000, 15_000]

export interface Kind {
  readonly name: string
  readonly forMs: readonly number[]
  readonly begin: Fault
}

/** A fault of one link. */
function onLink(change: (world: World, link: World['members'][number]['link']) => void): Fault {
  return (world) => {
    if (world.members.length === 0) return undefined
    const { link } = world.random.pick(world.members)
    change(world, link)
    return () => {
      Object.assign(link, { loss: 0, repeats: 0, delayMs: 0 })
      Object.assign(link.isCut, { commands: false, messages: false })
    }
  }
}

/** A fault of the server, if nothing else is wrong with it now. */
function onServer(begin: (world: World) => void, end: (world: World) => void): Fault {
  return (world) => {
    const { server } = world
    if (server.mode !== 'up') return undefined
    begin(world)
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

const killed: Fault = (world) => {
  if (world.members.length === 0) return undefined
  const member = world.random.pick(world.members)
  world.note(member.name, 'is killed')
  world.kill(member)
  return () => world.start()
}

const paused: Fault = (world) => {
  const awake = world.members.filter((each) => each.isAwake)
  if (awake.length === 0) return undefined
  const member = world.random.pick(awake)
  world.note(member.name, 'is paused')
  member.pause()
  return () => {
    if (!member.time.isPaused) return
    world.note(member.name, 'goes on')
    member.resume()
  }
}

export const KINDS: readonly Kind[] = [
  { name: 'process killed', forMs: LONG_MS, begin: killed },
  { name: 'process paused', forMs: LONG_MS, begin: paused },
  { name: 'process paused briefly', forMs: SHORT_MS, begin: paused },
  {
    name: 'commands cut',
    forMs: LONG_MS,
    begin: onLink((_, link) => {
      link.isCut.commands = true
    }),
  },
  {
    name: 'messages cut',
    forMs: LONG_MS,
    begin: onLink((_, link) => {
      link.isCut.messages = true
    }),
  },
  {
    name: 'process cut off',
    forMs: LONG_MS,
    begin: onLink((_, link) => Object.assign(link.isCut, { commands: true, messages: true })),
  },
  {
    name: 'link loses and repeats',
    forMs: LONG_MS,
    begin: onLink(({ random }, link) => {
      Object.assign(link, { loss: random.pick([0.05, 0.4]), repeats: 0.3, delayMs: 50 })
    }),
  },
  {
    name: 'link delays and reorders',
    forMs: LONG_MS,
    begin: onLink(({ random }, link) => {
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
    begin: ({ server, random }) => {
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
      ({ server, random }) => server.failOver(random.pick([0, 20, 400, 3_000])),
      () => {},
    ),
  },
  {
    name: 'server clock forward',
    forMs: [0],
    begin: (world) => {
      world.setClock(world.random.pick([50, 2_000, 60_000]))
      return undefined
    },
  },
  {
    name: 'server clock back',
    forMs: [0],
    begin: (world) => {
      world.setClock(-world.random.pick([50, 2_000, 60_000]))
      return undefined
    },
  },
]

export interface Plague {
  readonly kinds: readonly Kind[]
  readonly everyMs: number
  /** Chance that what went wrong brings the next along, soon: what has one cause comes at one time. */
  readonly together: number
}

export function makePlague(random: Random): Plague {
  return {
    kinds: random.some(KINDS, random.pick([0.1, 0.3, 0.7])),
    everyMs: random.pick([2_000, 8_000, 30_000]),
    together: random.pick([0, 0.3, 0.6]),
  }
}

/** Between two faults that come together. */
const SOON_MS = 500

/** From now on something of these kinds goes wrong, every `everyMs` on average, until `endAt`. */
export function plague(world: World, { kinds, everyMs, together }: Plague, endAt: number): void {
  const { kernel, random } = world
  if (kinds.length === 0) return
  const next = () => {
    if (kernel.now >= endAt) return
    const { name, forMs, begin } = random.pick(kinds)
    const lastsMs = random.pick(forMs) * (0.5 + random.next())
    const end = begin(world)
    world.figures.count(name)
    world.note('fault', `${name}${end === undefined ? '' : ` for ${lastsMs.toFixed(0)} ms`}`)
    if (end !== undefined) {
      kernel.after(lastsMs, () => {
        world.note('fault', `${name} is over`)
        end()
      })
    }
    const onAverageMs = random.chance(together) ? SOON_MS : everyMs
    kernel.after(-Math.log(1 - random.next()) * onAverageMs, next)
  }
  kernel.after(random.next() * everyMs, next)
}
