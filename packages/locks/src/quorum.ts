// Redlock: a lock on a majority of N independent stores. Decided as soon as a majority is reached or cannot be
// any more; never waits for a node longer than a small part of the lease; valid for what is left of the lease
// after the time it took and the drift; released on every node, also on those that did not answer.
//
// It gives more availability than one store, not more safety than a fence: see docs/guide/locks.md.

import {
  driftMs,
  type Grant,
  type Hold,
  LeaseKeeper,
  type LockStore,
  newToken,
  optionError,
} from '@stampede/core/store'
import { aborted, busy, unavailable, waitTimeout } from './errors.ts'
import { Lease, type Released, type Term } from './lease.ts'
import {
  type AcquireOptions,
  type QuorumConfig,
  type QuorumOptions,
  readAcquireOptions,
  readQuorumOptions,
} from './options.ts'
import { sleep } from './sleep.ts'

/** A lease without a fence: no majority can give one that rises without an exception. */
export type QuorumLease = Pick<
  Lease,
  'key' | 'signal' | 'assertHeld' | 'remainingMs' | 'release' | typeof Symbol.asyncDispose
> & {
  /** Extends it on a majority now, and takes it again on nodes that lost it. */
  extend(): Promise<boolean>
}

export interface QuorumLocks {
  acquire(key: string, options?: Omit<AcquireOptions, 'within'>): Promise<QuorumLease>
  /** One attempt; null when others hold a majority or too many nodes. Rejects when too many are unreachable. */
  tryAcquire(key: string, options?: { leaseMs?: number }): Promise<QuorumLease | null>
  run<T>(key: string, fn: (lease: QuorumLease) => T | Promise<T>): Promise<T>
  run<T>(
    key: string,
    options: Omit<AcquireOptions, 'within'>,
    fn: (lease: QuorumLease) => T | Promise<T>,
  ): Promise<T>
  close(): Promise<void>
}

/** Throws `ERR_STAMPEDE_OPTION`. The stores must be independent masters, each of its own. */
export function createQuorumLocks(
  stores: ReadonlyArray<{ readonly locks: LockStore }>,
  options?: QuorumOptions,
): QuorumLocks {
  return new QuorumTable(readQuorumOptions(stores, options))
}

/** What came of one attempt on all nodes. */
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

interface Decision {
  readonly isMajority: boolean
  /** Nodes that did not answer in time. */
  readonly silent: number
  readonly cause: unknown
}

/** Of a lock whose grant was never heard of, only the token is known. */
const ANY_FENCE = '*'

class QuorumTable implements QuorumLocks {
  readonly #config: QuorumConfig
  readonly #keeper: LeaseKeeper
  /** By token, for the renewal. */
  readonly #extenders = new Map<string, () => Promise<boolean>>()
  readonly #open = new Set<Lease>()
  #closed = false

  constructor(config: QuorumConfig) {
    this.#config = config
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
    const { clock, random, retryDelayMs } = this.#config
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
      await sleep(clock, Math.min(leftMs, random() * retryDelayMs), plan.signal)
    }
  }

  async tryAcquire(key: string, options?: { leaseMs?: number }): Promise<QuorumLease | null> {
    const plan = readAcquireOptions('tryAcquire', key, options, this.#config)
    const attempt = await this.#attempt(key, plan.leaseMs)
    if (attempt.status === 'unavailable') throw unavailable(key, noMajority(attempt.cause))
    return attempt.status === 'granted' ? this.#lease(key, attempt, plan.leaseMs) : null
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
    await Promise.all(this.#config.nodes.map((node) => node.close()))
  }

  /** One attempt on all nodes at once; after a failure every node is free of it again. */
  async #attempt(key: string, leaseMs: number): Promise<Attempt> {
    const { clock, prefix } = this.#config
    const from = clock.now()
    const request = { token: newToken(), leaseMs, queue: false }
    const grants = new Map<LockStore, Grant>()
    let failed = false
    const { isMajority, silent, cause } = await this.#decide('at once', leaseMs, async (node) => {
      const reply = await node.acquire(prefix + key, request)
      if (reply.status === 'busy') return false
      // An answer that comes after we gave up: this node is to be freed too.
      if (failed) void node.release(reply.grant).catch(() => {})
      else grants.set(node, reply.grant)
      return true
    })
    const term = { from, forMs: leaseMs }
    const isInTime = clock.now() - from < leaseMs - driftMs(leaseMs)
    if (isMajority && isInTime) return { status: 'granted', term, grants, cause }
    failed = true
    await this.#releaseAll(grants, leaseMs)
    const { nodes, quorum } = this.#config
    const status = isMajority || silent > nodes.length - quorum ? 'unavailable' : 'busy'
    return { status, term, grants, cause }
  }

  /** Asks every node. Settled at a majority or as soon as there can be none; or when all have answered or may no more. */
  #decide(
    when: 'at once' | 'by all',
    leaseMs: number,
    ask: (node: LockStore) => Promise<boolean>,
  ): Promise<Decision> {
    const { nodes, quorum } = this.#config
    return new Promise((resolve) => {
      let yes = 0
      let no = 0
      let silent = 0
      let cause: unknown
      const count = (answer: boolean) => {
        if (answer) yes += 1
        else no += 1
        const isOpen = yes < quorum && no <= nodes.length - quorum
        if (yes + no < nodes.length && (isOpen || when === 'by all')) return
        resolve({ isMajority: yes >= quorum, silent, cause })
      }
      for (const node of nodes) {
        this.#inTime(leaseMs, ask(node)).then(count, (error) => {
          cause = error
          silent += 1
          count(false)
        })
      }
    })
  }

  #inTime<T>(leaseMs: number, promise: Promise<T>): Promise<T> {
    const { clock, nodeTimeoutMs = Math.min(50, Math.max(5, leaseMs / 100)) } = this.#config
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(nodeTimeoutMs, () =>
        reject(new Error(`a node did not answer within ${nodeTimeoutMs} ms`)),
      )
      promise.then(resolve, reject).finally(() => timer.cancel())
    })
  }

  async #releaseAll(grants: ReadonlyMap<LockStore, Grant>, leaseMs: number): Promise<boolean> {
    const releases = [...grants].map(([node, grant]) => this.#inTime(leaseMs, node.release(grant)))
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
    let hold: Hold | undefined
    const end = (): Promise<Released> => {
      held.ended = true
      hold?.end()
      this.#extenders.delete(token)
      this.#open.delete(lease)
      return this.#releaseEverywhere(held)
    }
    /** `undefined`: too few answered; it is tried again before the lease ends. */
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
      release: end,
      onLost: () => void end(),
    })
    this.#open.add(lease)
    this.#extenders.set(token, async () => (await extend()) !== false)
    hold = this.#keeper.hold(grant, leaseMs, {
      lost: () => lease.revoke('a majority of nodes does not know it as ours any more'),
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

  /** A node that was restarted empty, or silent before, is taken again: else the lock erodes node by node. */
  #extend(held: Held): Promise<Decision> {
    const { key, grants, leaseMs } = held
    return this.#decide('by all', leaseMs, async (node) => {
      const grant = grants.get(node)
      if (grant !== undefined && (await node.renew([grant], leaseMs))[0] === true) return true
      // By a name of its own: what was asked of a silent node under the old one is being taken back.
      const request = { token: newToken(), leaseMs, queue: false }
      const reply = await node.acquire(this.#config.prefix + key, request)
      if (reply.status !== 'granted') return false
      if (held.ended) void node.release(reply.grant).catch(() => {})
      else grants.set(node, reply.grant)
      return !held.ended
    })
  }

  /** Nodes that never answered may hold it all the same, so they are told too. */
  async #releaseEverywhere({ key, token, grants, leaseMs }: Held): Promise<Released> {
    const { nodes, prefix } = this.#config
    for (const node of nodes) {
      const unheard = { key: prefix + key, token, fence: ANY_FENCE }
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
