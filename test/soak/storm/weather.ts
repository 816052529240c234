// The faults of the storm, one after another. Two fail-overs come when the replica has all
// acknowledged writes, so the promises of idempotency keys hold for all of them. Where data may be
// lost, the order checks exclude it.

import { setTimeout as sleep } from 'node:timers/promises'
import type { SentinelBench } from '../../harness/redis-sentinel.ts'
import type { RedisServer } from '../../harness/redis-server.ts'
import { askRedis } from '../../harness/redis-wire.ts'
import type { TcpProxy } from '../../harness/tcp-proxy.ts'
import { BOUND_MS, type Orders } from './truth.ts'

/** No master counts as down in this test. */
export const NEVER_MS = 600_000
const SILENT_MS = 700

export interface Sky {
  readonly bench: SentinelBench
  /** The proxies between the first member and each of the two servers. */
  readonly proxies: readonly TcpProxy[]
  readonly orders: Orders
}

type Fault = (sky: Sky) => Promise<void>

export const FAULTS: Readonly<Record<string, Fault>> = {
  none: () => sleep(2_000),

  async "one process's connections are cut, again and again, and then dead"({ proxies }) {
    for (let n = 0; n < 8; n++) {
      for (const proxy of proxies) proxy.drop()
      await sleep(150)
    }
    for (const proxy of proxies) proxy.stall()
    // Longer than a purged entry may be served.
    await sleep(BOUND_MS + 4_000)
    for (const proxy of proxies) proxy.flow()
    await sleep(1_500)
  },

  async 'the master is killed, and comes back with its data'({ bench }) {
    await bench.master.kill()
    await sleep(600)
    await bench.master.restart()
    await sleep(3_000)
  },

  async 'the master is frozen, and thaws'({ bench }) {
    await bench.master.pause()
    await sleep(2_000)
    await bench.master.resume()
    await sleep(3_000)
  },

  async 'the master is frozen, its replica takes over, and it thaws as another master'(sky) {
    const { bench } = sky
    await takeOver(sky, bench.master, bench.replica, () => bench.master.pause())
    await sleep(2_000)
    await bench.master.resume()
    await sleep(2_000)
    await follow(sky, bench.master, bench.replica)
    await sleep(1_000)
  },

  async 'the new master is killed, and the old one takes over'(sky) {
    const { bench } = sky
    await takeOver(sky, bench.replica, bench.master, () => bench.replica.kill())
    await sleep(2_000)
    await bench.replica.restart()
    await follow(sky, bench.replica, bench.master)
    await sleep(1_000)
  },

  async 'the master is killed, and comes back empty'({ bench, orders }) {
    const from = performance.now()
    await askRedis(bench.master, 'FLUSHALL')
    await bench.master.kill()
    await sleep(300)
    await bench.master.restart()
    orders.lost(from, performance.now())
    await bench.inSync(bench.master, bench.replica)
    await sleep(3_000)
  },

  async 'the master is killed without warning, and its replica takes over'(sky) {
    const { bench, orders } = sky
    const from = performance.now()
    await bench.downAfter(SILENT_MS)
    await bench.failOver()
    orders.lost(from, performance.now())
    await bench.downAfter(NEVER_MS)
    await sleep(2_000)
    await bench.master.restart()
    await follow(sky, bench.master, bench.replica)
    await sleep(2_000)
  },

  async 'the master hangs for moments, again and again'({ bench }) {
    for (let n = 0; n < 8; n++) {
      await bench.replica.pause()
      await sleep(150 + 50 * n)
      await bench.replica.resume()
      await sleep(300)
    }
    await sleep(4_000)
  },
}

/** Makes the first server the master again, after a round of all faults. */
export async function restoreRoles(sky: Sky): Promise<void> {
  const { bench } = sky
  await takeOver(sky, bench.replica, bench.master, () => bench.replica.pause())
  await sleep(2_000)
  await bench.replica.resume()
  await follow(sky, bench.replica, bench.master)
  await sleep(1_000)
}

/** Holds writes until the replica has them all, and then starts the fail-over. */
async function takeOver(
  { bench }: Sky,
  old: RedisServer,
  heir: RedisServer,
  happen: () => Promise<void>,
): Promise<void> {
  await askRedis(old, 'CLIENT PAUSE 5000 WRITE')
  await bench.inSync(old, heir)
  await bench.downAfter(SILENT_MS)
  await bench.takeOver(heir, happen)
  await bench.downAfter(NEVER_MS)
}

async function follow({ bench }: Sky, follower: RedisServer, leader: RedisServer): Promise<void> {
  await askRedis(follower, `REPLICAOF ${leader.host} ${leader.port}`)
  await bench.inSync(leader, follower)
}
