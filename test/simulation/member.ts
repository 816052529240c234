// One process of the fleet: a Stampede and locks on a Redis store of its own, as in an application.
// The sources of packages/core, packages/locks and packages/redis are unchanged.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import type { Kernel } from './kernel.ts'
import type { Link, Net } from './link.ts'
import { ProcessTime } from './process-time.ts'
import { WatchedLookups } from './watched-lookups.ts'
import { SimConnection } from './wire.ts'

export class Member {
  readonly name: string
  readonly time: ProcessTime
  readonly link: Link = {
    isCut: { commands: false, messages: false },
    loss: 0,
    repeats: 0,
    delayMs: 0,
  }
  readonly stampede: Stampede
  readonly locks: Locks
  readonly #kernel: Kernel
  readonly #connections: SimConnection[] = []
  #pausedMs = 0
  #pausedAt: number | undefined

  /** Without an L1, every lookup goes to the store. */
  constructor(net: Net, name: string, hasL1 = true) {
    const { kernel, random } = net
    this.name = name
    this.#kernel = kernel
    this.time = new ProcessTime(kernel, random.int(1_000_000_000) / 1_000, () => random.next())
    const clock = this.time
    // The part of ioredis that packages/redis needs. The first connection is for commands, the
    // second for messages.
    const duplicate = (): SimConnection => {
      const kind = this.#connections.length === 0 ? 'commands' : 'messages'
      const made = new SimConnection(net, clock, this.link, name, kind)
      made.onCommand = (command) => lookups.sent(command)
      this.#connections.push(made)
      return made
    }
    const lookups = new WatchedLookups(net, name)
    let made: { stampede: Stampede; locks: Locks } | undefined
    clock.run(() => {
      const store = lookups.watch(redisStore({ isCluster: false, duplicate }))
      const secret = 'a secret of the simulated fleet, of no use elsewhere'
      const options = { store, clock, idempotency: { secret } }
      const stampede = createStampede({ ...options, l1: { maxEntries: hasL1 ? 1_000 : 0 } })
      made = { stampede, locks: createLocks({ store, clock }) }
    })
    if (made === undefined) throw new Error('a process did not start')
    this.stampede = made.stampede
    this.locks = made.locks
  }

  get isAwake(): boolean {
    return !this.time.isDead && !this.time.isPaused
  }

  /** The link has no fault. */
  get isWell(): boolean {
    const { isCut, delayMs } = this.link
    return !isCut.commands && !isCut.messages && delayMs <= 50
  }

  /** The time of suspension in total. */
  get pausedMs(): number {
    return this.#pausedMs + (this.#pausedAt === undefined ? 0 : this.#kernel.now - this.#pausedAt)
  }

  pause(): void {
    this.#pausedAt ??= this.#kernel.now
    this.time.pause()
  }

  /** The machine is suspended too, so its timers stand still. */
  suspend(): void {
    this.#pausedAt ??= this.#kernel.now
    this.time.suspend()
  }

  resume(): void {
    this.#pausedMs = this.pausedMs
    this.#pausedAt = undefined
    this.time.resume()
  }

  kill(): void {
    this.time.kill()
    for (const connection of this.#connections) connection.drop()
  }

  /** Every fault of the link ends. */
  heal(): void {
    Object.assign(this.link, { loss: 0, repeats: 0, delayMs: 0 })
    Object.assign(this.link.isCut, { commands: false, messages: false })
    if (this.time.isPaused) this.resume()
  }

  /** State that is left after the last call. Empty, if no rule is broken. */
  leftovers(): string[] {
    const { active, idempotency } = this.stampede.stats()
    const { running, unstored } = idempotency
    const counts = { ...active, running, unstored }
    return Object.entries(counts).flatMap(([what, count]) =>
      count === 0 ? [] : [`${count} ${what}`],
    )
  }
}
