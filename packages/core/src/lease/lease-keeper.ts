// Renews every lease this process holds, by one timer: each at a third of its length. A lease that was lost only forbids the commit; it never cancels an answer.

import { messageOf } from '../errors.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Grant } from '../ports/store.ts'

export interface Renewer {
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
}

export interface HoldHooks {
  /** Extended by its length, counted from before the renewal was sent. */
  renewed?(sentAt: number): void
  /** The store said that it belongs to nobody or to another. */
  lost?(): void
}

export interface Hold {
  /** Stops the renewal. Does not tell the store: what ends the lease does. */
  end(): void
}

interface Held extends Hold {
  readonly grant: Grant
  readonly leaseMs: number
  readonly hooks: HoldHooks
  dueAt: number
}

export class LeaseKeeper {
  readonly #renewer: Renewer
  readonly #clock: Clock
  readonly #held = new Set<Held>()
  #timer: Timer | undefined
  #timerAt = Infinity

  constructor(renewer: Renewer, clock: Clock) {
    this.#renewer = renewer
    this.#clock = clock
  }

  get size(): number {
    return this.#held.size
  }

  /** Renews nothing any more. */
  stop(): void {
    this.#timer?.cancel()
    this.#held.clear()
  }

  grants(): Grant[] {
    return [...this.#held].map((held) => held.grant)
  }

  /** `forMs`: how long it is held as yet, if that is not `leaseMs`. */
  hold(grant: Grant, leaseMs: number, hooks: HoldHooks, forMs: number = leaseMs): Hold {
    const held: Held = {
      grant,
      leaseMs,
      hooks,
      dueAt: this.#clock.now() + forMs / 3,
      end: () => this.#held.delete(held),
    }
    this.#held.add(held)
    this.#schedule(held.dueAt)
    return held
  }

  #schedule(at: number): void {
    if (at >= this.#timerAt) return
    this.#timer?.cancel()
    this.#timerAt = at
    this.#timer = this.#clock.setTimer(at - this.#clock.now(), () => {
      this.#timerAt = Infinity
      this.#renewDue()
    })
  }

  #renewDue(): void {
    const now = this.#clock.now()
    const due = [...this.#held].filter((held) => held.dueAt <= now)
    for (const held of due) void this.#renew(held)
    let next = Infinity
    for (const held of this.#held) next = Math.min(next, held.dueAt)
    this.#schedule(next)
  }

  /**
   * Each by itself: one that cannot be asked for, as on a node of a cluster that froze, must not keep the answer from the others. An
   * error leaves two thirds of the lease for further tries; they come twice as often.
   */
  async #renew(held: Held): Promise<void> {
    const { grant, leaseMs } = held
    const sentAt = this.#clock.now()
    held.dueAt = sentAt + leaseMs / 3
    try {
      const [reply] = await this.#renewer.renew([grant], leaseMs)
      if (!this.#held.has(held)) return
      if (reply !== true) this.#held.delete(held)
      this.#tell(held, reply === true, sentAt)
    } catch {
      held.dueAt = this.#clock.now() + leaseMs / 6
      if (this.#held.has(held)) this.#schedule(held.dueAt)
    }
  }

  /** One holder's mistake is not the others' loss. */
  #tell({ hooks }: Held, isOurs: boolean, sentAt: number): void {
    try {
      if (isOurs) hooks.renewed?.(sentAt)
      else hooks.lost?.()
    } catch (error) {
      process.emitWarning(messageOf(error), 'StampedeHookWarning')
    }
  }
}
