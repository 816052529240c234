// LockStore on Redis. Acquire, renew and release are one script, one key and one round trip each. A
// process that is granted a lock by a release hears of it on its own channel.

import {
  type Grant,
  type LockHooks,
  type LockRelease,
  type LockReply,
  type LockRequest,
  type LockStore,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Hearer } from '../connection/subscription.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { acquireLock, leaveQueue, releaseLock, type Script } from '../protocol/scripts.generated.ts'
import { ANY_FENCE, mayHaveRun, Undos } from './undo.ts'

/** How long the next process in the queue has to renew. A dead one costs the others this much. */
const CLAIM_MS = 2_000

/** A grant message that is older than this, or further in the future, is not believed. */
const LATE_MS = 250
const AHEAD_MS = 50

/** Locks and cached entries of the same name never meet. */
const PREFIX = 'l:'

export class RedisLocks implements LockStore {
  readonly name = 'redis'
  readonly #link: RedisLink
  readonly #undos = new Undos()
  #hooks: LockHooks | undefined
  #hearer: Hearer | undefined

  constructor(link: RedisLink) {
    this.#link = link
  }

  attach(hooks: LockHooks): void {
    if (this.#hooks !== undefined) {
      throw storeInUse('createLocks')
    }
    this.#hooks = hooks
    this.#hearer = {
      onGrant: (message) => this.#receive(message),
      onGap: () => hooks.onGap(),
      onLost: () => hooks.onLost(),
      onError: (operation, error) => hooks.onError(operation, error),
    }
    this.#link.open(hooks.clock, this.#hearer)
  }

  async acquire(key: string, request: LockRequest): Promise<LockReply> {
    try {
      for (let attempt = 0; attempt < 4; attempt++) {
        const reply = await this.#acquireOnce(key, request)
        if (reply !== 'again') return reply
      }
      throw storeUnavailable(this.name, 'acquire-lock', new Error('answered too late'))
    } catch (error) {
      // The lock may have been granted although no reply came. A contender never asks again with this
      // token, so the undo need not be stopped.
      const { token, leaseMs } = request
      const unheard = { key, token, fence: ANY_FENCE }
      if (mayHaveRun(error)) {
        this.#undos.start(token, leaseMs, () => this.#release(unheard, '0', ['', '', 0]))
      }
      throw error
    }
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(grants, leaseMs, PREFIX)
  }

  async release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    const { processId } = this.#link
    const queueAgain = next === undefined ? ['', '', 0] : [processId, next.token, next.leaseMs]
    const [status, fence, forMs] = await this.#release(grant, '0', queueAgain)
    if (status === 'LOST') return { status: 'lost' }
    if (next === undefined || fence === '') {
      return forMs > 0 ? { status: 'released', busyForMs: forMs } : { status: 'released' }
    }
    const { key } = grant
    return { status: 'released', granted: { grant: { key, token: next.token, fence }, forMs } }
  }

  async leave(key: string): Promise<void> {
    await this.#link.run(leaveQueue, PREFIX + key, [this.#link.processId])
  }

  async close(): Promise<void> {
    if (this.#hearer !== undefined) this.#link.close(this.#hearer)
  }

  async #acquireOnce(key: string, request: LockRequest): Promise<LockReply | 'again'> {
    const { budgetMs, processId } = this.#link
    const { token, leaseMs, queue } = request
    const notAfter = this.#link.clockOf(PREFIX + key).notAfter(budgetMs)
    const args = [token, leaseMs, queue ? processId : '', notAfter, KEEP_MS]
    const [status, fence, forMs, holder] = await this.#run(acquireLock, key, args)
    if (status === 'GRANTED') return { status: 'granted', grant: { key, token, fence }, forMs }
    if (status === 'BUSY') {
      if (queue) this.#link.watch(forMs)
      return { status: 'busy', forMs }
    }
    if (status === 'OVERDUE') {
      await this.#release({ key, token: holder, fence }, '1', ['', '', 0])
    }
    return 'again'
  }

  async #release(
    { key, token, fence }: Grant,
    overdue: '0' | '1',
    queueAgain: ReadonlyArray<string | number>,
  ): Promise<Reply> {
    const { names, isCluster } = this.#link
    const trustReceivers = isCluster ? 0 : 1
    const args = [token, fence, overdue, key, names.grantPrefix, CLAIM_MS, trustReceivers]
    return this.#run(releaseLock, key, [...args, ...queueAgain, KEEP_MS])
  }

  async #run(script: Script, key: string, args: readonly ScriptArgument[]): Promise<Reply> {
    const raw = await this.#link.runTimed(script, PREFIX + key, args)
    const [status, , fence, forMs, holder] = raw
    return [String(status), String(fence), Number(forMs), String(holder ?? '')]
  }

  /** `<token> <fence> <until> <now> <key>`, in server ms; the key may contain spaces. */
  #receive(message: string): void {
    const [, token, fence, until, now, key] = GRANT.exec(message) ?? []
    if (token === undefined || fence === undefined || key === undefined) return
    const clock = this.#link.clockOf(PREFIX + key)
    const agoMs = clock.agoAtMost(Number(now))
    // The message is late, or the server's clock was set. Only the server knows how long the claim
    // lasts.
    if (agoMs === undefined || agoMs > LATE_MS || agoMs < -AHEAD_MS) {
      void this.#confirm(key, token)
      return
    }
    // Counts half of the claim until the first renewal. The clock may have been set forward by as
    // much as the message was late, which hides the delay.
    const forMs = Math.min(CLAIM_MS, clock.atLeastUntil(Number(until))) / 2
    this.#hooks?.onGrant({ key, token, fence }, forMs)
  }

  /**
   * Acquires again with the same token: the server replies with the same grant and the rest of its
   * claim, counted from before the command was sent.
   */
  async #confirm(key: string, token: string): Promise<void> {
    const clock = this.#link.clockOf(PREFIX + key)
    const request = { token, leaseMs: CLAIM_MS, queue: false }
    try {
      // The first try may be LATE, since the clock was set. Its reply corrects our estimate.
      for (let attempt = 0; attempt < 2; attempt++) {
        const sentAt = clock.now()
        const reply = await this.#acquireOnce(key, request)
        if (reply === 'again') continue
        if (reply.status !== 'granted') return
        this.#hooks?.onGrant(reply.grant, reply.forMs - (clock.now() - sentAt))
        return
      }
    } catch {
      // Waiters look again by themselves, and an unused claim ends.
    }
  }
}

const GRANT = /^(\S+) (\d+) (\d+) (\d+) ([\s\S]*)$/

type Reply = [status: string, fence: string, forMs: number, holder: string]
