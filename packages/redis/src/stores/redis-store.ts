// StampedeStore on Redis. Each operation is one script on one Cluster slot, in one round trip and
// within a time budget. Two exceptions: the purge of a key runs two scripts, and a lookup may begin
// with a plain read.

import type { StampedeStore } from '@stampede/core'
import {
  ANY_FENCE,
  type Grant,
  type IdempotencyStore,
  type LockStore,
  optionError,
  readers,
  readOptions,
  type StoreOperator,
  storeInUse,
  storeUnavailable,
  systemClock,
} from '@stampede/core/store'
import type { RedisClient } from '../connection/client-types.ts'
import { databaseOf, keyPrefixOf, requireClient } from '../connection/known-clients.ts'
import { notOpen, RedisLink, rejectNotOpen } from '../connection/link.ts'
import { AGAIN, type Receiver } from '../connection/operation.ts'
import type { LinkListener } from '../connection/subscription.ts'
import { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { names } from '../protocol/keys.ts'
import { durationsOf, type LookupReply, type LookupRequest } from '../protocol/lookup-reply.ts'
import { commit, endLease, purge, renewEntry } from '../protocol/scripts.generated.ts'
import { Compression, type CompressOptions } from './compression.ts'
import { RedisPurgeCommands } from './purge-commands.ts'
import type { Position } from './purge-events.ts'
import { RedisPurges } from './purge-log.ts'
import { RedisIdempotency } from './redis-idempotency.ts'
import { RedisLocks } from './redis-locks.ts'
import { Lookup, type LookupParts, PlainReads } from './redis-lookups.ts'
import { RedisOperator } from './redis-operator.ts'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

type CommitReply = Awaited<ReturnType<StampedeStore['fail']>>
type Committed = Awaited<ReturnType<StampedeStore['commit']>>
type Lifetimes = Parameters<StampedeStore['commit']>[2]

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /**
   * First part of the name of every key and channel in Redis. Default `stampede`. The `keyPrefix`
   * of an ioredis client comes before it.
   */
  prefix?: string | undefined
  /**
   * Time budget of one operation in ms, from the moment at which its command is sent. After it, the
   * request continues without Redis. Only the first connection of a process may take longer: up to
   * a second. Default 250.
   */
  commandTimeoutMs?: number | undefined
  /**
   * Compresses bodies in Redis. `true` is `{ codec: 'br', level: 1, minBytes: 2048 }`. Default
   * false. Clients get the same responses. Not compressed are responses with `Content-Encoding`,
   * types such as images, and bodies that would become less than a tenth smaller. All processes of
   * the fleet must have a version of Stampede with this option, set or not: for others, compressed
   * entries are misses.
   */
  compress?: boolean | CompressOptions | undefined
}

/**
 * Largest frame in Redis. All commands of a process share one connection, so other commands would
 * be late while a larger frame is sent or read, and no process could read it in its time budget.
 */
const MAX_FRAME_BYTES = 4 * 1024 * 1024
const RAN_LATE = 'Redis got the command after its deadline and ignored it'
/** How `end-lease-1.lua` treats the entry of a key that becomes hit-for-miss. */
const PASS_FLAGS = { false: 0, true: 1, keep: 2, skip: 3 }
/** Time between two checks that the process missed no purge. */
const HEARTBEAT_MS = 2_000

const OPTIONS = {
  prefix(where: string, value: unknown = 'stampede'): string {
    if (typeof value === 'string' && value !== '') return value
    throw optionError(where, value, "use a non-empty string such as 'shop'")
  },
  commandTimeoutMs: readers.number(250, { min: 10, max: 60_000, unit: 'milliseconds' }),
  compress(where: string, value: unknown = false): Compression | undefined {
    return value === false ? undefined : new Compression(where, value === true ? {} : value)
  },
} satisfies Record<keyof RedisStoreOptions, unknown>

/**
 * Creates a store on Redis 6.2 or newer, or on Valkey. It opens two connections with the address
 * and credentials of `redis`. It never uses or closes `redis` itself.
 */
export function redisStore(redis: RedisClient, options?: RedisStoreOptions): StampedeStore {
  const client = requireClient(redis)
  const { prefix, commandTimeoutMs, compress } = readOptions('redisStore', options, OPTIONS)
  const whole = keyPrefixOf(client) + prefix
  // With an empty hash tag first, a Cluster puts the keys of one command into several slots.
  if (/^[^{]*\{\}/.test(whole)) {
    throw optionError(
      'redisStore.prefix',
      whole,
      'use a prefix without {}, which fails in a Redis Cluster; {name} is allowed',
    )
  }
  const all = names(whole, databaseOf(client))
  const link = new RedisLink(client, all, commandTimeoutMs)
  return new RedisStore(link, compress)
}

class RedisStore implements StampedeStore {
  readonly name = 'redis'
  readonly hasTimeBudget = true
  readonly locks: LockStore
  readonly idempotency: IdempotencyStore
  readonly operator: StoreOperator
  readonly written: { raw: number; stored: number } = { raw: 0, stored: 0 }
  readonly #link: RedisLink
  readonly #compression: Compression | undefined
  readonly #commands: RedisPurgeCommands
  #parts: LookupParts | undefined
  readonly #deliveries = new PendingDeliveries()
  #heartbeat: NodeJS.Timeout | undefined
  #listener: LinkListener | undefined

  constructor(link: RedisLink, compression: Compression | undefined) {
    this.#link = link
    this.#compression = compression
    if (compression !== undefined) compression.together = (run) => link.together(run)
    this.#commands = new RedisPurgeCommands(link)
    this.locks = new RedisLocks(link)
    this.idempotency = new RedisIdempotency(link, MAX_FRAME_BYTES)
    this.operator = new RedisOperator(link)
  }

  get position(): Position {
    return this.#parts?.purges.position ?? 0
  }

  get isAvailable(): boolean {
    return this.#link.isAvailable
  }

  get confirmedAt(): number {
    return this.#parts?.purges.confirmedAt ?? Number.NEGATIVE_INFINITY
  }

  attach(hooks: StoreHooks): void {
    if (this.#listener !== undefined) throw storeInUse('createStampede')
    let resumed: Promise<void> = Promise.resolve()
    this.#listener = {
      onWake: (message) => {
        const key = this.#deliveries.receive(message)
        if (key !== undefined) hooks.onWake(key)
      },
      onLog: (message) => this.#requirePurges().receive(message),
      onSubscribed: () => {
        const onError = (error: unknown) => hooks.onError('read-purges', error)
        resumed = this.#requirePurges().resume().catch(onError)
      },
      // The process reads missed purges first. Only then may waiters look up again.
      onGap: () => void resumed.then(() => hooks.onGap()),
      onLost: () => hooks.onLost(),
      onCommandsLost: () => this.#parts?.purges.onConnectionLost(),
      onError: (operation, error) => hooks.onError(operation, error),
    }
    const { clock } = hooks
    this.#link.open(clock, this.#listener)
    const logClock = {
      now: () => clock.now(),
      // In a cluster, the log may move to another server.
      agoAtMost: (serverMs: number) => this.#link.logClock.agoAtMost(serverMs),
    }
    const [link, deliveries] = [this.#link, this.#deliveries]
    const purgeHooks = { ...hooks, onChange: () => deliveries.clear() }
    const purges = new RedisPurges(this.#commands, logClock, purgeHooks)
    this.#parts = { clock, link, deliveries, plainReads: new PlainReads(link), purges }
    this.#heartbeat = setInterval(() => void purges.beat(), HEARTBEAT_MS)
    this.#heartbeat.unref()
  }

  lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    return new Promise((resolve, reject) => this.lookupTo(key, request, { resolve, reject }))
  }

  commit(
    grant: Grant,
    frame: Uint8Array,
    lifetimes: Lifetimes,
    awaited?: boolean,
  ): Promise<Committed> {
    return new Promise((resolve, reject) => {
      this.commitTo(grant, frame, lifetimes, awaited, { resolve, reject })
    })
  }

  // The same without promises, for core.

  lookupTo(key: string, request: LookupRequest, receiver: Receiver<LookupReply>): void {
    if (this.#parts === undefined) rejectNotOpen(receiver)
    else this.#link.begin(new Lookup(this.#parts, key, request, receiver))
  }

  /** After a compression: when it began (`calledAt`), and the size of the frame before it. */
  commitTo(
    grant: Grant,
    frame: Uint8Array,
    lifetimes: Lifetimes,
    awaited: boolean | undefined,
    receiver: Receiver<Committed>,
    calledAt?: number,
    rawBytes?: number,
  ): void {
    const clock = this.#parts?.clock ?? systemClock
    const since = calledAt ?? clock.now()
    if (this.#compression !== undefined && rawBytes === undefined) {
      return this.#compression.compress(frame, awaited === true, clock, (stored) =>
        this.commitTo(grant, stored, lifetimes, awaited, receiver, since, frame.byteLength),
      )
    }
    if (frame.byteLength > MAX_FRAME_BYTES) {
      const onEnd = (reply: CommitReply) =>
        receiver.resolve(reply === 'committed' ? 'too-large' : reply)
      this.fail(grant, undefined, 0).then(onEnd, (error) => receiver.reject(error))
      return
    }
    const { key, token, fence } = grant
    const { buffer, byteOffset, byteLength } = frame
    const bytes = Buffer.isBuffer(frame) ? frame : Buffer.from(buffer, byteOffset, byteLength)
    this.written.raw += rawBytes ?? frame.byteLength
    this.written.stored += bytes.byteLength
    let wasLate = false
    this.#link.begin<Committed>({
      script: commit,
      keys: this.#link.keysOf(commit, key),
      options: {},
      receiver,
      bytes: bytes.byteLength,
      args: ({ server, leftMs }) => {
        // An entry ages while its commit waits in the queue. In a frozen server, it would do so
        // unseen, so Redis ignores the commit after its deadline.
        const notAfter = server.clock.notAfter(leftMs)
        const agedMs = Math.ceil(clock.now() - since)
        const terms = `${fence} ${notAfter} ${agedMs} ${durationsOf(lifetimes)} ${token}`
        return [terms, bytes, key, this.#link.names.wakePrefix]
      },
      read: ([reply, now]: unknown[], { server, startedAt }) => {
        server.clock.observe(Number(now), startedAt)
        const status = String(reply)
        if (status !== 'LATE') return status === 'COMMITTED' ? 'committed' : 'fenced'
        // The server's clock was set forward, or the estimate of that clock was wrong. The reply
        // corrects the estimate.
        if (wasLate) throw storeUnavailable('redis', commit.name, new Error(RAN_LATE))
        wasLate = true
        return AGAIN
      },
    })
  }

  pass(
    grant: Grant,
    passMs: number,
    isFirst: boolean | 'keep' | 'skip' = false,
  ): Promise<CommitReply | 'first'> {
    return this.#endLease(grant, passMs, 0, '', PASS_FLAGS[`${isFirst}`])
  }

  fail(
    grant: Grant,
    failure: Parameters<StampedeStore['fail']>[1],
    backoffMs: number,
    awaited = false,
  ): Promise<CommitReply> {
    const [forMs, text] = failure === undefined ? [0, ''] : [backoffMs, JSON.stringify(failure)]
    // Only `pass` gets `first`.
    return this.#endLease(grant, 0, forMs, text, Number(awaited)) as Promise<CommitReply>
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(renewEntry, grants, leaseMs)
  }

  /**
   * Purges the record, and then writes the purge log. So a process that gets the message of the log
   * cannot read the old entry again. Runs even while the breaker is open. Otherwise a purge could
   * fail although Redis is available again.
   */
  async purge(key: string, { soft }: { soft: boolean }): Promise<void> {
    const args = [soft ? 1 : 0, key, this.#link.names.wakePrefix]
    await this.#link.retry(() => this.#link.run(purge, key, args, String, { ignoreBreaker: true }))
    await this.#requirePurges().append({ of: 'key', name: key, soft })
  }

  async mark(subjects: string | readonly string[], { soft }: { soft: boolean }): Promise<void> {
    const log = this.#requirePurges()
    const marks = [subjects].flat().map((name) => log.append({ of: 'subject', name, soft }))
    await Promise.all(marks)
  }

  together(run: () => void): void {
    this.#link.together(run)
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
    if (this.#listener !== undefined) this.#link.close(this.#listener)
  }

  #requirePurges(): RedisPurges {
    if (this.#parts !== undefined) return this.#parts.purges
    throw notOpen()
  }

  #endLease(
    grant: Grant,
    passMs: number,
    backoffMs: number,
    failure: string,
    flag: number,
  ): Promise<CommitReply | 'first'> {
    const { key, token, fence } = grant
    const { wakePrefix } = this.#link.names
    const args = [token, fence, passMs, backoffMs, failure, key, wakePrefix, flag]
    // This may follow a lookup without a reply. If a frozen Redis continues, it then ends the lease
    // right after the lookup. So the command is sent although Redis seems unavailable.
    const ignoreBreaker = fence === ANY_FENCE
    return this.#link.run(endLease, key, args, readEnd, { ignoreBreaker })
  }
}

// A method that wraps or replaces one of these has no twin, so core calls that method itself.
const { lookup, lookupTo, commit: commitOf, commitTo } = RedisStore.prototype
Object.assign(lookup, { direct: Object.assign(lookupTo, { of: lookup }) })
Object.assign(commitOf, { direct: Object.assign(commitTo, { of: commitOf }) })

function readEnd(reply: unknown): CommitReply | 'first' {
  if (String(reply) === 'FIRST') return 'first'
  return String(reply) === 'ENDED' ? 'committed' : 'fenced'
}
