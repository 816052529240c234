// StampedeStore on Redis. Each operation is one script on one slot, one round trip, within a time
// budget. Two exceptions: the purge of a key runs two scripts, and a lookup may begin with a plain
// read.

import type { StampedeStore } from '@stampede/core'
import {
  type CommitReply,
  type Failure,
  type Grant,
  type IdempotencyStore,
  type Lifetimes,
  type LockStore,
  type LookupReply,
  type LookupRequest,
  number,
  optionError,
  type Position,
  type Reader,
  readOptions,
  type StoreHooks,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import type { RedisClient } from '../connection/connection.ts'
import { RedisLink } from '../connection/link.ts'
import type { Hearer } from '../connection/subscription.ts'
import { Awaited } from '../delivery/awaited.ts'
import { names } from '../protocol/keys.ts'
import { commit, endLease, purge } from '../protocol/scripts.generated.ts'
import { RedisPurgeCommands } from './purge-commands.ts'
import { RedisPurges } from './purge-log.ts'
import { RedisIdempotency } from './redis-idempotency.ts'
import { RedisLocks } from './redis-locks.ts'
import { RedisLookups } from './redis-lookups.ts'

export interface RedisStoreOptions {
  /** First part of every key and channel. Default `stampede`. */
  prefix?: string
  /**
   * How long one operation may take before the request goes on without Redis. A lookup waits once
   * more if its reply is the first that is late. Default 250.
   */
  commandTimeoutMs?: number
}

/** How often the process checks that it missed no purge. */
const HEARTBEAT_MS = 2_000

const OPTIONS = {
  prefix(where: string, value: unknown = 'stampede'): string {
    if (typeof value === 'string' && value !== '') return value
    throw optionError(where, value, "use a non-empty string such as 'shop'")
  },
  commandTimeoutMs: number(250, { min: 10, max: 60_000, unit: 'milliseconds' }),
} satisfies Record<keyof RedisStoreOptions, Reader>

/**
 * The shared tier on Redis ≥ 6.2 or Valkey. Opens two connections of its own with the address and
 * credentials of `redis`, and never uses or closes `redis` itself.
 */
export function redisStore(redis: RedisClient, options?: RedisStoreOptions): StampedeStore {
  if (typeof redis?.duplicate !== 'function') {
    throw optionError(
      'redisStore: redis',
      redis,
      'pass an ioredis client: redisStore(new Redis(url))',
    )
  }
  const { prefix, commandTimeoutMs } = readOptions('redisStore', options, OPTIONS)
  return new RedisStore(new RedisLink(redis, names(prefix), commandTimeoutMs))
}

const UNSTAMPED = 'no memory left on the server; the key was not made stale'

class RedisStore implements StampedeStore {
  readonly name = 'redis'
  readonly locks: LockStore
  readonly idempotency: IdempotencyStore
  readonly #link: RedisLink
  readonly #commands: RedisPurgeCommands
  #purges: RedisPurges | undefined
  readonly #awaited = new Awaited()
  readonly #lookups: RedisLookups
  #heartbeat: NodeJS.Timeout | undefined
  #hearer: Hearer | undefined

  constructor(link: RedisLink) {
    this.#link = link
    this.#commands = new RedisPurgeCommands(link)
    this.#lookups = new RedisLookups(link, this.#awaited)
    this.locks = new RedisLocks(link)
    this.idempotency = new RedisIdempotency(link)
  }

  get position(): Position {
    return this.#purges?.position ?? 0
  }

  get confirmedAt(): number {
    return this.#purges?.confirmedAt ?? Number.NEGATIVE_INFINITY
  }

  attach(hooks: StoreHooks): void {
    if (this.#hearer !== undefined) throw storeInUse('createStampede')
    let resumed: Promise<void> = Promise.resolve()
    this.#hearer = {
      onWake: (message) => {
        const key = this.#awaited.receive(message)
        if (key !== undefined) hooks.onWake(key)
      },
      onLog: (message) => this.#need().receive(message),
      onHearing: () => {
        const onError = (error: unknown) => hooks.onError('read-purges', error)
        resumed = this.#need().resume().catch(onError)
      },
      // Catches up with purges first, so that waiters who look again see them.
      onGap: () => void resumed.then(() => hooks.onGap()),
      onLost: () => hooks.onLost(),
      onDoubt: () => this.#purges?.doubt(),
      onError: (operation, error) => hooks.onError(operation, error),
    }
    this.#link.open(hooks.clock, this.#hearer)
    this.#purges = new RedisPurges(
      this.#commands,
      this.#commands.clock,
      this.#awaited.endedBy(hooks),
    )
    this.#heartbeat = setInterval(() => void this.#purges?.beat(), HEARTBEAT_MS)
    this.#heartbeat.unref()
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    // One deadline for all round trips of this lookup.
    const deadline = this.#link.deadline()
    // Nearly always confirmed: then there is nothing to wait for.
    const doubt = this.#need().confirm()
    if (doubt !== undefined) await this.#certain(doubt, deadline)
    const reply = await this.#lookups.find(key, request, deadline)
    // If this process was frozen meanwhile or the server is slow, the entry may have been purged
    // since.
    try {
      const newDoubt = this.#need().confirm()
      if (newDoubt !== undefined) await this.#certain(newDoubt, deadline)
    } catch (error) {
      // The caller gets this error instead of the reply, and so never uses its lease.
      if ('grant' in reply && reply.grant !== undefined) this.#lookups.giveBack(key, request)
      throw error
    }
    return reply
  }

  async commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    const { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs, physicalMs } = lifetimes
    this.#commands.madeFor(physicalMs)
    const args = [
      grant.token,
      grant.fence,
      Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength),
      freshMs,
      [staleWhileRevalidateMs, staleIfErrorMs, keepMs].map((ms) => ms.toFixed(0)).join(' '),
      physicalMs,
      grant.key,
      this.#link.names.wakePrefix,
    ]
    const reply = String(await this.#link.run(commit, grant.key, args))
    return reply === 'COMMITTED' ? 'committed' : 'fenced'
  }

  pass(grant: Grant, passMs: number): Promise<CommitReply> {
    return this.#endLease(grant, passMs, 0, '')
  }

  fail(
    grant: Grant,
    failure: Failure | undefined,
    backoffMs: number,
    awaited = false,
  ): Promise<CommitReply> {
    return failure === undefined
      ? this.#endLease(grant, 0, 0, '')
      : this.#endLease(grant, 0, backoffMs, JSON.stringify(failure), awaited)
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(grants, leaseMs)
  }

  /**
   * Purges the record first. So a process that hears of the purge does not read the old value
   * again. Runs even while the breaker is open: otherwise a purge would fail although Redis is
   * back.
   */
  async purge(key: string, { soft }: { soft: boolean }): Promise<void> {
    const args = [soft ? 1 : 0, key, this.#link.names.wakePrefix]
    const reply = String(
      await this.#link.persist(() => this.#link.run(purge, key, args, { insist: true })),
    )
    if (reply !== 'PURGED') throw storeUnavailable(this.name, 'purge', new Error(UNSTAMPED))
    await this.#need().append({ of: 'key', name: key, soft })
  }

  mark(subject: string, { soft }: { soft: boolean }): Promise<void> {
    return this.#need().append({ of: 'subject', name: subject, soft })
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
    if (this.#hearer !== undefined) this.#link.close(this.#hearer)
  }

  /**
   * Waits until no purge was missed. If the wait was long, the confirmation is old again, so it
   * repeats.
   */
  async #certain(doubt: Promise<void>, deadline: number): Promise<void> {
    for (let next: Promise<void> | undefined = doubt; next; next = this.#need().confirm()) {
      await this.#link.within(deadline, 'lookup', next)
    }
  }

  #need(): RedisPurges {
    if (this.#purges !== undefined) return this.#purges
    throw storeUnavailable(this.name, 'run', new Error('pass the store to createStampede first'))
  }

  async #endLease(
    grant: Grant,
    passMs: number,
    backoffMs: number,
    failure: string,
    awaited = false,
  ): Promise<CommitReply> {
    const { key, token, fence } = grant
    const { wakePrefix } = this.#link.names
    const args = [token, fence, passMs, backoffMs, failure, key, wakePrefix, awaited ? 1 : 0]
    return String(await this.#link.run(endLease, key, args)) === 'ENDED' ? 'committed' : 'fenced'
  }
}
