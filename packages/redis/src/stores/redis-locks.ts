// LockStore on Redis. Acquire, renew and release are one script on one key, in one round trip. If a
// release hands a lock over, a message on the channel of the next process has its grant.

import {
  ANY_FENCE,
  type Grant,
  type LockStore,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Turn } from '../connection/operation.ts'
import type { LinkListener } from '../connection/subscription.ts'
import { LOCK_PREFIX as PREFIX } from '../protocol/keys.ts'
import { acquireLock, leaveQueue, releaseLock, renew } from '../protocol/scripts.generated.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]

type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

/**
 * Length of the lease of a lock that was handed over, until the new holder renews it (the claim).
 * If the new holder is dead, the queue waits for this time.
 */
const CLAIM_MS = 2_000

/**
 * Limits for the age of a grant message. If a message is older than the first, or further in the
 * future than the second, the process asks Redis before it uses the grant.
 */
const MAX_DELAY_MS = 250
const MAX_AHEAD_MS = 50

export class RedisLocks implements LockStore {
  readonly name = 'redis'
  readonly #link: RedisLink
  #hooks: LockHooks | undefined
  #listener: LinkListener | undefined

  constructor(link: RedisLink) {
    this.#link = link
  }

  attach(hooks: LockHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createLocks')
    this.#hooks = hooks
    this.#listener = { ...hooks, onGrant: (message) => this.#receive(message) }
    this.#link.open(hooks.clock, this.#listener)
  }

  async acquire(key: string, request: LockRequest): Promise<LockReply> {
    for (let attempt = 0; attempt < 4; attempt++) {
      const reply = await this.#acquireOnce(key, request)
      if (reply !== undefined) return reply
    }
    throw storeUnavailable(this.name, 'acquire-lock', new Error('no result after 4 tries'))
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(renew, grants, leaseMs, PREFIX)
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

  leave(key: string): Promise<void> {
    return this.#link.run(leaveQueue, PREFIX + key, [this.#link.processId], () => {})
  }

  async close(): Promise<void> {
    if (this.#listener !== undefined) this.#link.close(this.#listener)
  }

  /** Undefined: the lock of a dead holder was handed over, and this request has to be repeated. */
  async #acquireOnce(key: string, request: LockRequest): Promise<LockReply | undefined> {
    const { token, leaseMs, queue } = request
    const args = [token, leaseMs, queue ? this.#link.processId : '', KEEP_MS]
    const acquiring = this.#link.run(acquireLock, PREFIX + key, args, readReply, {
      begins: true,
    })
    const [status, fence, forMs, holder] = await acquiring
    if (status === 'GRANTED') return { status: 'granted', grant: { key, token, fence }, forMs }
    if (status === 'BUSY') {
      if (queue) this.#link.watch(forMs)
      return { status: 'busy', forMs }
    }
    await this.#release({ key, token: holder, fence }, '1', ['', '', 0])
    return undefined
  }

  #release(
    { key, token, fence }: Grant,
    overdue: '0' | '1',
    queueAgain: ReadonlyArray<string | number>,
  ): Promise<Reply> {
    const { names, isCluster } = this.#link
    const countsAllReceivers = isCluster ? 0 : 1
    const handOver = [overdue, key, names.grantPrefix, CLAIM_MS, countsAllReceivers]
    const args = [token, fence, ...handOver, ...queueAgain, KEEP_MS]
    // This may follow a request without a reply. If a frozen Redis continues, it then releases the
    // lock right after the request. So the command is sent although Redis seems unavailable.
    const ignoreBreaker = fence === ANY_FENCE
    return this.#link.run(releaseLock, PREFIX + key, args, readReply, { ignoreBreaker })
  }

  /**
   * Handles a grant message: `<token> <fence> <until> <now> <key>`, with times in ms of the
   * server's clock.
   */
  #receive(message: string): void {
    const [, token, fence, until, now, key] = GRANT_MESSAGE.exec(message) ?? []
    if (token === undefined || fence === undefined || key === undefined) return
    const clock = this.#link.clockOf(PREFIX + key)
    const agoMs = clock.agoAtMost(Number(now))
    // If the message is late or the server's clock was set, only the server knows how much of the
    // claim is left.
    if (agoMs === undefined || agoMs > MAX_DELAY_MS || agoMs < -MAX_AHEAD_MS) {
      void this.#confirm(key, token)
      return
    }
    // Until the first renewal, the process uses only half of the claim, because a change of the
    // server's clock can hide the delay of a message.
    const forMs = Math.min(CLAIM_MS, clock.atLeastUntil(Number(until))) / 2
    this.#hooks?.onGrant({ key, token, fence }, forMs)
  }

  /**
   * Acquires again with the same token. The server then replies with the same grant and the rest of
   * its claim. This process counts that rest from before it sent the command.
   */
  async #confirm(key: string, token: string): Promise<void> {
    const clock = this.#link.clockOf(PREFIX + key)
    const sentAt = clock.now()
    try {
      const reply = await this.#acquireOnce(key, { token, leaseMs: CLAIM_MS, queue: false })
      if (reply?.status !== 'granted') return
      this.#hooks?.onGrant(reply.grant, reply.forMs - (clock.now() - sentAt))
    } catch {
      // Waiters try again by themselves, and the unused claim ends.
    }
  }
}

/** The key is last, because it may contain spaces. */
const GRANT_MESSAGE = /^(\S+) (\d+) (\d+) (\d+) ([\s\S]*)$/

function readReply([status, now, fence, forMs, holder]: unknown[], { server, startedAt }: Turn) {
  server.clock.observe(Number(now), startedAt)
  return [String(status), String(fence), Number(forMs), String(holder ?? '')] satisfies Reply
}

type Reply = [status: string, fence: string, forMs: number, holder: string]
