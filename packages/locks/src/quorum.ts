// Redlock: a lock on a majority of N independent stores. An attempt ends as soon as a majority is
// reached or impossible, and waits only a small part of the lease for each node. The lock is valid
// for the lease minus the time of the attempt and the drift. A release is sent to every node, even
// to nodes that did not reply. A quorum is more available than one store, and less safe than a
// fence (docs/guide/quorum.md).

import { ANY_FENCE, type Grant, LeaseKeeper, type LockStore, newToken } from '@stampede/core/store'
import { type LockReply, type LockRequest, request } from './create-lease.ts'
import { type Locks, LockTable } from './create-locks.ts'
import type { Lease } from './lease.ts'
import { type QuorumConfig, type QuorumOptions, readQuorumOptions } from './options.ts'

/** A lease without a fence: a majority cannot issue numbers that always rise. */
type QuorumLease = Pick<
  Lease,
  'key' | 'signal' | 'assertHeld' | 'remainingMs' | 'release' | typeof Symbol.asyncDispose
> & {
  /** Extends the lease on a majority now, and acquires it again on nodes that lost it. */
  extend(): Promise<boolean>
}

/**
 * Locks on a majority of independent servers. Their leases have no fence, and `extend()` in place
 * of `renew()`. Throws `ERR_STAMPEDE_OPTION` on an invalid option. Each store must be an
 * independent master: a replica of another node does not count.
 */
export function createQuorumLocks(
  stores: ReadonlyArray<{ readonly locks: LockStore }>,
  options?: QuorumOptions,
): Locks<QuorumLease> {
  const config = readQuorumOptions(stores, options)
  const store = new QuorumStore(config)
  return new LockTable({ ...config, store, maxHoldMs: Infinity, wait: 'quorum' }, withoutFence)
}

function withoutFence(lease: Lease): QuorumLease {
  return {
    key: lease.key,
    signal: lease.signal,
    assertHeld: () => lease.assertHeld(),
    remainingMs: () => lease.remainingMs(),
    extend: () => lease.renew(),
    release: () => lease.release(),
    [Symbol.asyncDispose]: () => lease[Symbol.asyncDispose](),
  }
}

/** A lease on the nodes. */
interface Held {
  /** The nodes that have the lease. */
  readonly grants: Map<LockStore, Grant>
  readonly leaseMs: number
}

/** The nodes as one store. Its grants have no fence. */
class QuorumStore implements LockStore {
  readonly name = 'quorum'
  readonly #config: QuorumConfig
  readonly #keeper: LeaseKeeper
  /** The leases that have not ended, by token. */
  readonly #held = new Map<string, Held>()

  constructor(config: QuorumConfig) {
    this.#config = config
    this.#keeper = new LeaseKeeper(this, config.clock)
  }

  attach(hooks: Parameters<LockStore['attach']>[0]): void {
    for (const node of this.#config.nodes) {
      node.attach({ ...hooks, onGrant: (grant) => release(node, grant) })
    }
  }

  /** One attempt on all nodes at once. A failed attempt is released on every node. */
  async acquire(key: string, { token, leaseMs }: LockRequest): Promise<LockReply> {
    const { clock, nodes, quorum } = this.#config
    const from = clock.now()
    const grants = new Map<LockStore, Grant>()
    let failed = false
    const ask = async (node: LockStore): Promise<boolean> => {
      const reply = await this.#request(node, key, token, leaseMs)
      if (reply.status === 'busy') return false
      // This grant arrived after the attempt had failed, so it is released.
      if (failed) release(node, reply.grant)
      else grants.set(node, reply.grant)
      return true
    }
    const { isMajority, silent, cause } = await decide(this.#config, 'at once', leaseMs, ask)
    if (isMajority && clock.now() - from < leaseMs - LeaseKeeper.driftMs(leaseMs)) {
      this.#held.set(token, { grants, leaseMs })
      return { status: 'granted', grant: { key, token, fence: '' }, forMs: leaseMs }
    }
    failed = true
    await this.#releaseAll({ grants, leaseMs })
    if (isMajority || silent > nodes.length - quorum) throw noMajority(cause)
    return { status: 'busy', forMs: 0 }
  }

  /** Rejects if too few nodes replied. The keeper retries before the lease ends. */
  renew(grants: readonly Grant[]): Promise<boolean[]> {
    return Promise.all(grants.map((grant) => this.#extend(grant)))
  }

  /**
   * Releases the lock on all nodes, because a node that never replied may still have granted it.
   */
  async release({ key, token }: Grant): ReturnType<LockStore['release']> {
    const held = this.#held.get(token)
    this.#held.delete(token)
    for (const node of this.#config.nodes) {
      if (!held?.grants.has(node)) release(node, { key, token, fence: ANY_FENCE })
    }
    if (held !== undefined && (await this.#releaseAll(held))) return { status: 'released' }
    throw noMajority(undefined)
  }

  async leave(): Promise<void> {}

  async close(): Promise<void> {
    this.#keeper.stop()
    await Promise.all(this.#config.nodes.map((node) => node.close()))
  }

  /**
   * Acquires the lock again on nodes that restarted empty or did not reply before. Otherwise the
   * majority would shrink node by node.
   */
  async #extend({ key, token }: Grant): Promise<boolean> {
    const held = this.#held.get(token)
    if (held === undefined) return false
    const { grants, leaseMs } = held
    const ask = async (node: LockStore): Promise<boolean> => {
      const grant = grants.get(node)
      if (grant !== undefined && (await node.renew([grant], leaseMs))[0] === true) return true
      // On nodes that did not reply, the release of the old token may still be pending. So use a
      // new token.
      const reply = await this.#request(node, key, newToken(), leaseMs)
      if (reply.status !== 'granted') return false
      const isHeld = this.#held.has(token)
      if (isHeld) grants.set(node, reply.grant)
      else release(node, reply.grant)
      return isHeld
    }
    const { isMajority, silent, cause } = await decide(this.#config, 'by all', leaseMs, ask)
    if (!isMajority && silent > 0) throw noMajority(cause)
    return isMajority
  }

  #request(node: LockStore, key: string, token: string, leaseMs: number): Promise<LockReply> {
    const context = { store: node, keeper: this.#keeper, pending: new Set<Promise<unknown>>() }
    return request(context, key, { token, leaseMs, queue: false })
  }

  async #releaseAll({ grants, leaseMs }: Held): Promise<boolean> {
    const releases = [...grants].map(([node, grant]) =>
      inTime(this.#config, leaseMs, node.release(grant)),
    )
    const replies = await Promise.all(releases.map((reply) => reply.catch(() => undefined)))
    return replies.some((reply) => reply?.status === 'released')
  }
}

function release(node: LockStore, grant: Grant): void {
  void node.release(grant).catch(() => {})
}

/** It has no `cause`: mayHaveRun() would take the failed attempt for a possible grant. */
function noMajority(cause: unknown): Error {
  const why = cause instanceof Error ? `: ${cause.message}` : ''
  return new Error(`no majority of nodes answered in time${why}`)
}

/** The replies of all nodes that count. */
interface Decision {
  readonly isMajority: boolean
  /** Number of nodes that failed or did not reply in time. */
  readonly silent: number
  readonly cause: unknown
}

/**
 * Asks every node. `at once` settles as soon as a majority is reached or impossible. `by all`
 * waits until each node has replied or timed out.
 */
function decide(
  config: QuorumConfig,
  when: 'at once' | 'by all',
  leaseMs: number,
  ask: (node: LockStore) => Promise<boolean>,
): Promise<Decision> {
  const { nodes, quorum } = config
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
      inTime(config, leaseMs, ask(node)).then(count, (error) => {
        cause = error
        silent += 1
        count(false)
      })
    }
  })
}

/** Rejects if the node does not reply in time. */
function inTime<T>(config: QuorumConfig, leaseMs: number, reply: Promise<T>): Promise<T> {
  const { clock, nodeTimeoutMs = Math.min(50, Math.max(5, leaseMs / 100)) } = config
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(nodeTimeoutMs, () =>
      reject(new Error(`a node did not answer within ${nodeTimeoutMs} ms`)),
    )
    reply.then(resolve, reject).finally(() => timer.cancel())
  })
}
