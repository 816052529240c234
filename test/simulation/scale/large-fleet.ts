// A large fleet of the real code on the simulated network, and its cost for the server in commands
// and messages. The only faults are those that the caller makes.

import { Figures } from '../figures.ts'
import { withSimulatedTimers } from '../process-time.ts'
import { World } from '../world.ts'

export interface Cost {
  readonly simulatedMs: number
  readonly commands: Readonly<Record<string, number>>
  readonly messages: number
  /** The most commands in a tenth of a second. */
  readonly peak: number
}

const WARM_UP_MS = 3_000
const SLICE_MS = 100

export class LargeFleet {
  readonly world: World
  #commands: Record<string, number> = {}
  #bySlice = new Map<number, number>()
  #since = 0
  #messagesBefore = 0

  constructor(processes: number) {
    this.world = new World(1, new Figures())
    const { server, kernel } = this.world
    const { witness } = server
    server.witness = (...of) => {
      witness(...of)
      const [{ command }] = of
      this.#commands[command.name] = (this.#commands[command.name] ?? 0) + 1
      const slice = Math.floor(kernel.now / SLICE_MS)
      this.#bySlice.set(slice, (this.#bySlice.get(slice) ?? 0) + 1)
    }
    for (let i = 0; i < processes; i++) this.world.start()
  }

  /** The cost from now on, for this time or until `isOver`. */
  pass(forMs: number, isOver = () => false): Cost {
    const { kernel, server, judge } = this.world
    const end = kernel.now + forMs
    while (!isOver() && judge.first === undefined && kernel.step(end)) {}
    if (judge.first !== undefined) throw judge.first
    const cost: Cost = {
      simulatedMs: kernel.now - this.#since,
      commands: this.#commands,
      messages: server.messages - this.#messagesBefore,
      peak: Math.max(0, ...this.#bySlice.values()),
    }
    this.#commands = {}
    this.#bySlice = new Map()
    this.#since = kernel.now
    this.#messagesBefore = server.messages
    return cost
  }

  /** Every process asks for the key now. Resolves on the simulated clock. */
  askAll(key: string, originMs: number, ttlMs = 60_000): Asked {
    const { world } = this
    const { kernel } = world
    const askedAt = kernel.now
    const asked: Asked = { left: world.members.length, origins: 0, lastMs: 0, failed: 0 }
    const options = Object.freeze({ ttlMs, jitter: 0 })
    for (const member of world.members) {
      const factory = async () => {
        asked.origins += 1
        await new Promise<void>((resolve) => {
          kernel.after(originMs, () => member.time.receive(resolve))
        })
        return { key }
      }
      const end = () => {
        asked.left -= 1
        asked.lastMs = kernel.now - askedAt
      }
      // A step of its own, because each process is a machine of its own.
      kernel.after(0, () =>
        member.time.receive(() => {
          member.stampede.getOrSet(key, factory, options).then(end, () => {
            asked.failed += 1
            end()
          })
        }),
      )
    }
    return asked
  }

  /**
   * From now on each command takes the server this time, and the others wait. Before, it executes
   * at once.
   */
  keepServerBusy(ms: (command: string) => number): void {
    const { server, kernel } = this.world
    const receive = server.receive.bind(server)
    let freeAt = 0
    server.receive = (command, session, reply) => {
      freeAt = Math.max(freeAt, kernel.now) + ms(command.name)
      kernel.after(freeAt - kernel.now, () => receive(command, session, reply))
    }
  }

  purge(target: { key: string } | { tag: string }): void {
    const [member] = this.world.members
    this.world.kernel.after(0, () => member?.time.receive(() => void member.stampede.purge(target)))
  }

  restartServer(): void {
    this.world.server.crash()
    this.world.server.restart(false)
  }
}

export interface Asked {
  left: number
  origins: number
  /** When the last process got its value. */
  lastMs: number
  failed: number
}

export interface Costs {
  readonly start: Cost
  readonly idle: Cost
  readonly burst: Cost & { readonly asked: Asked }
  readonly purge: Cost
  readonly restart: Cost
  /** Heap of this process, divided by the number of processes of the fleet. */
  readonly heapKb: number
}

export interface BusyBurst {
  readonly processes: number
  readonly asked: Asked
  readonly cost: Cost
}

/** Measured times: of a command beside many waiters, and of a wake-up for each waiter. */
const COMMAND_MS = 0.03
const WAKE_MS = 0.006

/**
 * All processes ask for one cold key at one moment, and the server needs time for each command.
 * Synchronous. Call it from a macrotask (`inMacrotask`).
 */
export function busyBurst(processes: number): BusyBurst {
  return withSimulatedTimers(() => {
    const fleet = new LargeFleet(processes)
    fleet.pass(WARM_UP_MS)
    fleet.keepServerBusy((name) => (name === 'commit' ? WAKE_MS * processes : COMMAND_MS))
    const asked = fleet.askAll('one', ORIGIN_MS)
    const cost = fleet.pass(30_000, () => asked.left === 0)
    return { processes, asked, cost }
  })
}

const IDLE_MS = 10_000
const ORIGIN_MS = 200

/** Synchronous. Call it from a macrotask (`inMacrotask`). */
export function costsOf(processes: number): Costs {
  return withSimulatedTimers(() => {
    const before = process.memoryUsage().heapUsed
    const fleet = new LargeFleet(processes)
    const start = fleet.pass(WARM_UP_MS)
    const heapKb = (process.memoryUsage().heapUsed - before) / processes / 1024
    const idle = fleet.pass(IDLE_MS)
    const asked = fleet.askAll('one', ORIGIN_MS)
    const burst = { ...fleet.pass(30_000, () => asked.left === 0), asked }
    fleet.purge({ key: 'one' })
    const purge = fleet.pass(500)
    fleet.restartServer()
    const restart = fleet.pass(10_000)
    return { start, idle, burst, purge, restart, heapKb }
  })
}
