// Asks all nodes of a quorum lock at once, each with a time limit, and decides by majority.

import type { LockStore } from '@stampede/core/store'
import type { QuorumConfig } from './options.ts'

export interface Decision {
  readonly isMajority: boolean
  /** Number of nodes that failed or did not reply in time. */
  readonly silent: number
  readonly cause: unknown
}

/**
 * Asks every node. `at once` settles as soon as a majority is reached or impossible. `by all`
 * waits until each node has replied or timed out.
 */
export function decide(
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
export function inTime<T>(config: QuorumConfig, leaseMs: number, reply: Promise<T>): Promise<T> {
  const { clock, nodeTimeoutMs = Math.min(50, Math.max(5, leaseMs / 100)) } = config
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(nodeTimeoutMs, () =>
      reject(new Error(`a node did not answer within ${nodeTimeoutMs} ms`)),
    )
    reply.then(resolve, reject).finally(() => timer.cancel())
  })
}
