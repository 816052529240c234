// LockStore on Redis: acquire, renew and release are one script, one key, one round trip each. A lock that
// is passed on is announced on the receiver's own channel.

import {
  type Grant,
  type LockHooks,
  type LockRelease,
  type LockReply,
  type LockRequest,
  type LockStore,
  storeInUse,
  storeUnavailable,
} from '@stampede/core'
import type { RedisLink } from './link.ts'
import { acquireLock, leaveQueue, releaseLock, renew } from './scripts.generated.ts'
import type { Hearer } from './subscription.ts'
import { mayHaveRun, undoDelaysMs } from './undo.ts'

/** A lock nobody holds or wants is forgotten after this long; its next fence comes from the clock. */
const KEEP_MS = 60_000
/** How long the next in the queue has to take over; a dead one costs the others this much. */
const CLAIM_MS = 2_000

/** The token alone says who it is: of a lock whose grant was never heard of, the fence is not known. */
const ANY_FENCE = '*'

export class RedisLocks implements LockStore {
  readonly name = 'redis'
  readonly #link: RedisLink
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
      if (mayHaveRun(error)) void this.#undo(key, request)
      throw error
    }
  }

  /** The lock may have been taken although no reply came: then it is given back as soon as that is possible. */
  async #undo(key: string, { token, leaseMs }: LockRequest): Promise<void> {
    for (const delayMs of undoDelaysMs(leaseMs)) {
      await new Promise((resolve) => setTimeout(resolve, delayMs).unref())
      try {
        await this.#release({ key, token, fence: ANY_FENCE }, '0', ['', '', 0])
        return
      } catch {
        // Still away; at the latest the lease ends by itself.
      }
    }
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.#link.run(renew, record(key), [token, fence, leaseMs, KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
  }

  async release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    const { processId } = this.#link
    const clock = this.#link.clockOf(record(grant.key))
    const sentAt = clock.now()
    const queueAgain = next === undefined ? ['', '', 0] : [processId, next.token, next.leaseMs]
    const [status, serverNow, fence, forMs] = await this.#release(grant, '0', queueAgain)
    clock.observe(serverNow, sentAt)
    if (status === 'LOST') return { status: 'lost' }
    if (next === undefined || fence === '') {
      return forMs > 0 ? { status: 'released', busyForMs: forMs } : { status: 'released' }
    }
    const { key } = grant
    return { status: 'released', granted: { grant: { key, token: next.token, fence }, forMs } }
  }

  async leave(key: string): Promise<void> {
    await this.#link.run(leaveQueue, record(key), [this.#link.processId])
  }

  async close(): Promise<void> {
    if (this.#hearer !== undefined) this.#link.close(this.#hearer)
  }

  async #acquireOnce(key: string, request: LockRequest): Promise<LockReply | 'again'> {
    const { budgetMs, processId } = this.#link
    const clock = this.#link.clockOf(record(key))
    const { token, leaseMs, queue } = request
    const sentAt = clock.now()
    const raw = await this.#link.run(acquireLock, record(key), [
      token,
      leaseMs,
      queue ? processId : '',
      clock.notAfter(budgetMs),
      KEEP_MS,
    ])
    const [status, serverNow, fence, forMs, holder] = readReply(raw)
    clock.observe(serverNow, sentAt)
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
    return readReply(
      await this.#link.run(releaseLock, record(key), [...args, ...queueAgain, KEEP_MS]),
    )
  }

  /** `<token> <fence> <until, in server ms> <key>`; the key may contain spaces. */
  #receive(message: string): void {
    const [, token, fence, until, key] = /^(\S+) (\d+) (\d+) ([\s\S]*)$/.exec(message) ?? []
    if (token === undefined || fence === undefined || key === undefined) return
    // Never more than the server gave: if its clock was set forward, our estimate of it is too early.
    const clock = this.#link.clockOf(record(key))
    const forMs = Math.min(CLAIM_MS, clock.atLeastUntil(Number(until)))
    this.#hooks?.onGrant({ key, token, fence }, forMs)
  }
}

type Reply = [status: string, serverNow: number, fence: string, forMs: number, holder: string]

function readReply(raw: unknown): Reply {
  if (!Array.isArray(raw)) throw new TypeError('lock: the reply is not an array')
  const [status, serverNow, fence, forMs, holder] = raw
  return [String(status), Number(serverNow), String(fence), Number(forMs), String(holder ?? '')]
}

/** Locks and cached entries of the same name never meet. */
function record(key: string): string {
  return `l:${key}`
}
