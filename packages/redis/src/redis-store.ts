// StampedeStore on Redis: each operation is one script, one key, one round trip, within a time budget.

import {
  type CommitReply,
  checkNames,
  type Failure,
  type Grant,
  type IdempotencyStore,
  type Lifetimes,
  type LockStore,
  type LookupReply,
  type LookupRequest,
  optionError,
  readNumber,
  type StampedeStore,
  type StoreHooks,
  storeInUse,
  storeUnavailable,
} from '@stampede/core'
import type { RedisClient } from './client.ts'
import { names } from './keys.ts'
import { RedisLink } from './link.ts'
import { readLookup } from './lookup-reply.ts'
import { isIdempotencyRecord, RedisIdempotency } from './redis-idempotency.ts'
import { RedisLocks } from './redis-locks.ts'
import { commit, endLease, lookupOrLease, purge, renew } from './scripts.generated.ts'
import type { Hearer } from './subscription.ts'

export interface RedisStoreOptions {
  /** First part of every key and channel. Default `stampede`. */
  prefix?: string
  /** How long one operation may take before the request goes on without Redis. Default 250. */
  commandTimeoutMs?: number
}

/** A record without an entry outlives its lease by this much, so that a late holder is told apart. */
const KEEP_MS = 60_000

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
  const bag = checkNames('redisStore', options, ['prefix', 'commandTimeoutMs'])
  const prefix = bag.prefix ?? 'stampede'
  if (typeof prefix !== 'string' || prefix === '') {
    throw optionError('redisStore.prefix', prefix, "use a non-empty string such as 'shop'")
  }
  const range = { min: 10, max: 60_000, unit: 'milliseconds' }
  const budgetMs = readNumber('redisStore', bag, 'commandTimeoutMs', range) ?? 250
  return new RedisStore(new RedisLink(redis, names(prefix), budgetMs))
}

const NOT_PURGED: Readonly<Record<string, string>> = {
  UNSTAMPED: 'no memory left on the server; variants of the key were not purged',
  UNANNOUNCED: 'gone in Redis, but PUBLISH is refused: other processes may hold copies in memory',
}

class RedisStore implements StampedeStore {
  readonly name = 'redis'
  readonly locks: LockStore
  readonly idempotency: IdempotencyStore
  readonly #link: RedisLink
  #hearer: Hearer | undefined

  constructor(link: RedisLink) {
    this.#link = link
    this.locks = new RedisLocks(link)
    this.idempotency = new RedisIdempotency(link)
  }

  get hearing(): boolean {
    return this.#link.hearing
  }

  attach(hooks: StoreHooks): void {
    if (this.#hearer !== undefined) {
      throw storeInUse('createStampede')
    }
    this.#hearer = {
      onWake: (key) => hooks.onWake(key),
      // The channel also tells of idempotency keys that were settled: nothing of ours.
      onPurge: (key, options) => {
        if (!isIdempotencyRecord(key)) hooks.onPurge(key, options)
      },
      onGap: () => hooks.onGap(),
      onLost: () => hooks.onLost(),
      onError: (operation, error) => hooks.onError(operation, error),
    }
    this.#link.open(hooks.clock, this.#hearer)
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    const reply = await this.#lookupOnce(key, request)
    if (reply !== 'late') return reply
    // The server's clock was set forward, or our estimate of it was poor; now it is exact.
    const again = await this.#lookupOnce(key, request)
    if (again === 'late')
      throw storeUnavailable(this.name, 'lookup', new Error('answered too late'))
    return again
  }

  async commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    const { freshMs, staleWhileRevalidateMs, staleIfErrorMs, physicalMs } = lifetimes
    const reply = await this.#link.run(commit, grant.key, [
      grant.token,
      grant.fence,
      Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength),
      freshMs,
      staleWhileRevalidateMs,
      staleIfErrorMs,
      physicalMs,
      grant.key,
      this.#link.names.wakePrefix,
    ])
    return String(reply) === 'COMMITTED' ? 'committed' : 'fenced'
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

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.#link.run(renew, key, [token, fence, leaseMs, KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
  }

  /** Tried even while the breaker is open: a purge that was not said must not be taken for one that was. */
  async purge(key: string, { soft }: { soft: boolean }): Promise<void> {
    const { wakePrefix, purgeChannel } = this.#link.names
    const args = [soft ? 1 : 0, key, wakePrefix, purgeChannel]
    const reply = String(await this.#link.run(purge, key, args, true))
    if (reply !== 'PURGED') throw storeUnavailable(this.name, 'purge', new Error(NOT_PURGED[reply]))
  }

  async close(): Promise<void> {
    if (this.#hearer !== undefined) this.#link.close(this.#hearer)
  }

  async #lookupOnce(key: string, request: LookupRequest): Promise<LookupReply | 'late'> {
    const { clock, budgetMs, processId } = this.#link
    const sentAt = clock.now()
    const raw = await this.#link.run(lookupOrLease, key, [
      request.token,
      request.leaseMs,
      processId,
      request.knownFence ?? '',
      request.unreadableFence ?? '-',
      // A command that waits in a frozen server's buffer runs when it thaws, long after its caller went
      // on without it, and would take a lease that nobody holds. So it says until when it is wanted.
      clock.notAfter(budgetMs),
      key,
      KEEP_MS,
    ])
    const { serverNow, reply } = readLookup(raw, key, request)
    clock.observe(serverNow, sentAt)
    if (reply !== 'late' && 'busyForMs' in reply) this.#link.watch(reply.busyForMs)
    return reply
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
