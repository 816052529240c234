// Redlock: a lock on a majority of N independent stores. An attempt ends as soon as a majority is
// reached or impossible, and waits only a small part of the lease for each node. The lock is valid
// for the lease minus the time of the attempt and the drift. A release is sent to every node, even
// to nodes that did not reply. A quorum is more available than one store, and less safe than a
// fence (docs/guide/quorum.md).

import {
  ANY_FENCE,
  driftMs,
  type Grant,
  LeaseKeeper,
  type LockReply,
  type LockRequest,
  type LockStore,
  newToken,
  optionError,
} from '@stampede/core/store'
import { request } from './create-lease.ts'
import { aborted, busy, unavailable, waitTimeout } from './errors.ts'
import { Lease, type Released, type Term } from './lease.ts'
import {
  Acquisition,
  LOCK_EVENTS,
  type LockEvent,
  type LockEventType,
  type LockListener,
  LockMonitor,
  type LockStats,
} from './lock-events.ts'
import { type Decision, decide, inTime } from './majority.ts'
import {
  type AcquireOptions,
  type AcquirePlan,
  type QuorumConfig,
  type QuorumOptions,
  random,
  readAcquireOptions,
  readQuorumOptions,
} from './options.ts'
import { sleep } from './sleep.ts'

/**
 * Longest pause before the next attempt. Each pause is random, because contenders that each hold
 * some nodes would otherwise collide again.
 */
const LONGEST_PAUSE_MS = 200

/** A lease without a fence: a majority cannot issue numbers that always rise. */
export type QuorumLease = Pick<
  Lease,
  'key' | 'signal' | 'assertHeld' | 'remainingMs' | 'release' | typeof Symbol.asyncDispose
> & {
  /** Extends the lease on a majority now, and acquires it again on nodes that lost it. */
  extend(): Promise<boolean>
}

/** Locks on a majority of independent servers, from `createQuorumLocks`. */
export interface QuorumLocks {
  /** Waits for the lock on a majority of the nodes. Rejects as `locks.acquire` does. */
  acquire(key: string, options?: Omit<AcquireOptions, 'within'>): Promise<QuorumLease>
  /**
   * One attempt. Resolves to null if other owners hold too many nodes for a majority. Rejects if
   * too many nodes do not reply.
   */
  tryAcquire(key: string, options?: { leaseMs?: number | undefined }): Promise<QuorumLease | null>
  /** Runs `fn` with the lock, and releases it afterwards. Rejects as `locks.run` does. */
  run<T>(key: string, fn: (lease: QuorumLease) => T | Promise<T>): Promise<T>
  run<T>(
    key: string,
    options: Omit<AcquireOptions, 'within'>,
    fn: (lease: QuorumLease) => T | Promise<T>,
  ): Promise<T>
  /** Counters and current sizes. */
  stats(): LockStats
  /** As `locks.on`. */
  on<T extends LockEventType>(type: T, listener: LockListener<T>): () => void
  on(type: '*', listener: (event: LockEvent) => void): () => void
  /** Releases all leases, and closes connections that nothing else uses. Calls that wait reject. */
  close(): Promise<void>
}

/**
 * Throws `ERR_STAMPEDE_OPTION` on an invalid option. Each store must be an independent master: a
 * replica of another node does not count.
 */
export function createQuorumLocks(
  stores: ReadonlyArray<{ readonly locks: LockStore }>,
  options?: QuorumOptions,
): QuorumLocks {
  return new QuorumTable(readQuorumOptions(stores, options))
}

/** Result of one attempt on all nodes. */
interface Attempt {
  readonly status: 'granted' | 'busy' | 'unavailable'
  readonly term: Term
  readonly grants: Map<LockStore, Grant>
  readonly cause: unknown
}

interface Held {
  readonly key: string
  readonly token: string
  readonly grants: Map<LockStore, Grant>
  readonly leaseMs: number
  ended: boolean
}

class QuorumTable implements QuorumLocks {
  readonly #config: QuorumConfig
  readonly #keeper: LeaseKeeper
  readonly #monitor: LockMonitor
  /** The functions that extend the open leases, by token. */
  readonly #extenders = new Map<string, () => Promise<boolean>>()
  readonly #open = new Set<Lease>()
  readonly #pending = new Set<Promise<unknown>>()
  #closed = false

  constructor(config: QuorumConfig) {
    this.#config = config
    this.#monitor = new LockMonitor(config.clock)
    const ignore = () => {}
    const hooks = { clock: config.clock, onGap: ignore, onLost: ignore, onError: ignore }
    for (const node of config.nodes) {
      node.attach({ ...hooks, onGrant: (grant) => void node.release(grant).catch(ignore) })
    }
    this.#keeper = new LeaseKeeper(
      {
        renew: (grants) =>
          Promise.all(grants.map(({ token }) => this.#extenders.get(token)?.() ?? false)),
      },
      config.clock,
    )
  }

  async acquire(key: string, options?: Omit<AcquireOptions, 'within'>): Promise<QuorumLease> {
    const plan = readAcquireOptions('acquire', key, options, this.#config)
    const call = this.#call(key)
    const lease = await call.run(() => this.#acquire(key, plan, call))
    if (lease === null) throw busy(key)
    return lease
  }

  #call(key: string): Acquisition {
    return new Acquisition(this.#monitor, key)
  }

  async #acquire(key: string, plan: AcquirePlan, call: Acquisition): Promise<QuorumLease> {
    const { clock } = this.#config
    const startedAt = clock.now()
    for (;;) {
      if (plan.signal?.aborted || this.#closed) throw aborted(key, plan.signal?.reason)
      const attempt = await this.#attempt(key, plan.leaseMs)
      if (attempt.status === 'granted') {
        const lease = this.#lease(key, attempt, plan.leaseMs)
        if (!plan.signal?.aborted && !this.#closed) return lease
        await lease.release()
        continue
      }
      const leftMs = plan.waitMs - (clock.now() - startedAt)
      if (leftMs <= 0) throw this.#refusal(key, attempt, plan.waitMs)
      if (attempt.status === 'busy') call.contended()
      await sleep(clock, Math.min(leftMs, random(clock) * LONGEST_PAUSE_MS), plan.signal)
    }
  }

  async tryAcquire(
    key: string,
    options?: { leaseMs?: number | undefined },
  ): Promise<QuorumLease | null> {
    const plan = readAcquireOptions('tryAcquire', key, options, this.#config)
    return this.#call(key).run(async () => {
      const attempt = await this.#attempt(key, plan.leaseMs)
      if (attempt.status === 'unavailable') throw unavailable(key, noMajority(attempt.cause))
      return attempt.status === 'granted' ? this.#lease(key, attempt, plan.leaseMs) : null
    })
  }

  stats(): LockStats {
    return this.#monitor.stats(this.#open.size)
  }

  on(type: string, listener: (event: never) => void): () => void {
    return this.#monitor.events.onChecked(LOCK_EVENTS, type, listener)
  }

  async run<T>(
    key: string,
    optionsOrFn: Omit<AcquireOptions, 'within'> | ((lease: QuorumLease) => T | Promise<T>),
    maybeFn?: (lease: QuorumLease) => T | Promise<T>,
  ): Promise<T> {
    const fn = maybeFn ?? optionsOrFn
    if (typeof fn !== 'function') throw optionError('run: fn', fn, 'pass the function to run')
    const options = maybeFn === undefined ? undefined : (optionsOrFn as AcquireOptions)
    await using lease = await this.acquire(key, options)
    const result = await fn(lease)
    lease.assertHeld()
    return result
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#open].map((lease) => lease.release()))
    this.#keeper.stop()
    await Promise.all(this.#config.nodes.map((node) => node.close()))
  }

  /** One attempt on all nodes at once. A failed attempt is released on every node. */
  async #attempt(key: string, leaseMs: number): Promise<Attempt> {
    const { clock } = this.#config
    const from = clock.now()
    const terms = { token: newToken(), leaseMs, queue: false }
    const grants = new Map<LockStore, Grant>()
    let failed = false
    const { isMajority, silent, cause } = await decide(
      this.#config,
      'at once',
      leaseMs,
      async (node) => {
        const reply = await this.#request(node, key, terms)
        if (reply.status === 'busy') return false
        // This grant arrived after the attempt had failed, so it is released.
        if (failed) void node.release(reply.grant).catch(() => {})
        else grants.set(node, reply.grant)
        return true
      },
    )
    const term = { from, forMs: leaseMs }
    const isInTime = clock.now() - from < leaseMs - driftMs(leaseMs)
    if (isMajority && isInTime) return { status: 'granted', term, grants, cause }
    failed = true
    await this.#releaseAll(grants, leaseMs)
    const { nodes, quorum } = this.#config
    const status = isMajority || silent > nodes.length - quorum ? 'unavailable' : 'busy'
    return { status, term, grants, cause }
  }

  #request(store: LockStore, key: string, terms: LockRequest): Promise<LockReply> {
    return request({ store, keeper: this.#keeper, pending: this.#pending }, key, terms)
  }

  async #releaseAll(grants: ReadonlyMap<LockStore, Grant>, leaseMs: number): Promise<boolean> {
    const releases = [...grants].map(([node, grant]) =>
      inTime(this.#config, leaseMs, node.release(grant)),
    )
    const replies = await Promise.allSettled(releases)
    return replies.some(
      (reply) => reply.status === 'fulfilled' && reply.value.status === 'released',
    )
  }

  #lease(key: string, { term, grants }: Attempt, leaseMs: number): QuorumLease {
    const { clock } = this.#config
    const [grant] = grants.values()
    if (grant === undefined) throw busy(key)
    const { token } = grant
    const held: Held = { key, token, grants, leaseMs, ended: false }
    const known = { key, fence: '', since: clock.now() }
    let hold: ReturnType<LeaseKeeper['hold']> | undefined
    const end = (): Promise<Released> => {
      held.ended = true
      hold?.end()
      this.#extenders.delete(token)
      this.#open.delete(lease)
      return this.#releaseEverywhere(held)
    }
    /** `undefined`: too few nodes replied. The keeper retries before the lease ends. */
    const extend = async (): Promise<boolean | undefined> => {
      if (lease.remainingMs() === 0) return false
      const from = clock.now()
      const { isMajority, silent } = await this.#extend(held)
      if (isMajority) lease.extend({ from, forMs: leaseMs })
      if (isMajority) return lease.remainingMs() > 0
      return silent > 0 ? undefined : false
    }
    const lease: Lease = new Lease(key, 0n, term, {
      clock,
      renew: async () => (await extend()) === true,
      release: () => {
        if (!lease.isLost) this.#monitor.end('lock.released', known)
        return end()
      },
      onLost: () => {
        this.#monitor.end('lock.lost', known)
        void end()
      },
    })
    this.#open.add(lease)
    this.#extenders.set(token, async () => (await extend()) !== false)
    hold = this.#keeper.hold(grant, leaseMs, {
      lost: () => lease.revoke('a majority of nodes no longer has this lease'),
    })
    return {
      key,
      signal: lease.signal,
      assertHeld: () => lease.assertHeld(),
      remainingMs: () => lease.remainingMs(),
      extend: () => lease.renew(),
      release: () => lease.release(),
      [Symbol.asyncDispose]: () => lease[Symbol.asyncDispose](),
    }
  }

  /**
   * Acquires the lock again on nodes that restarted empty or did not reply before. Otherwise the
   * majority would shrink node by node.
   */
  #extend(held: Held): Promise<Decision> {
    const { key, grants, leaseMs } = held
    return decide(this.#config, 'by all', leaseMs, async (node) => {
      const grant = grants.get(node)
      if (grant !== undefined && (await node.renew([grant], leaseMs))[0] === true) return true
      // On nodes that did not reply, the release of the old token may still be pending. So use a
      // new token.
      const terms = { token: newToken(), leaseMs, queue: false }
      const reply = await this.#request(node, key, terms)
      if (reply.status !== 'granted') return false
      if (held.ended) void node.release(reply.grant).catch(() => {})
      else grants.set(node, reply.grant)
      return !held.ended
    })
  }

  /**
   * Releases the lock on all nodes, because a node that never replied may still have granted it.
   */
  async #releaseEverywhere({ key, token, grants, leaseMs }: Held): Promise<Released> {
    for (const node of this.#config.nodes) {
      const unheard = { key, token, fence: ANY_FENCE }
      if (!grants.has(node)) void node.release(unheard).catch(() => {})
    }
    return (await this.#releaseAll(grants, leaseMs)) ? 'released' : 'unknown'
  }

  #refusal(key: string, { status, cause }: Attempt, waitMs: number): Error {
    if (status === 'unavailable')
      return unavailable(key, cause ?? new Error('no majority of nodes'))
    return waitMs === 0 ? busy(key) : waitTimeout(key, waitMs)
  }
}

function noMajority(cause: unknown): Error {
  return new Error('no majority of nodes answered in time', { cause })
}
