// The faults of the lab, one per button. Each runs beside the same requests in all lanes.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../database.ts'
import { changeProduct, findProduct } from '../products.ts'
import { Problem } from '../response.ts'
import type { Fleet } from './fleet.ts'
import type { Recorder, TimelineEvent } from './recorder.ts'
import type { ShopProcess } from './shop-process.ts'

export const FAULTS = ['none', 'kill', 'freeze', 'redis', 'bus', 'purge', 'origin'] as const
export type FaultName = (typeof FAULTS)[number]

export interface Scene {
  readonly fleet: Fleet
  readonly database: Database
  readonly recorder: Recorder
  readonly runId: string
  readonly productId: number
  /** Requests the page once from each process, so that it is in the cache. */
  warm(): Promise<void>
  /** Called at the moment after which no response may show the earlier price. */
  onPurged(priceCents: number): void
}

export interface Fault {
  /** The page expires after one second. */
  readonly isShortLived?: boolean
  /** Time from the first to the last request. */
  readonly spreadMs?: number
  /** Before the requests. */
  before?(scene: Scene): Promise<void>
  /** Beside the requests. */
  during?(scene: Scene): Promise<void>
  /** After all responses. */
  after?(scene: Scene): Promise<void>
}

/** Longer than the lease of the shop (2 s) and the query of the process that takes over. */
const FREEZE_MS = 3_000
const PROBE_MS = 1_000
const PURGE_LOAD_MS = 1_500
const LONGEST_WAIT_MS = 5_000

export const FAULT_OF: Readonly<Record<FaultName, Fault>> = {
  none: {},

  kill: {
    async during(scene) {
      const worker = await workerOf(scene)
      if (worker === undefined) return
      scene.recorder.note('lab.killed', worker.number)
      await worker.kill()
    },
    after: ({ fleet }) => fleet.ready(),
  },

  freeze: {
    async during(scene) {
      const { recorder, database } = scene
      const worker = await workerOf(scene)
      if (worker === undefined) return
      recorder.note('lab.frozen', worker.number)
      worker.freeze()
      await sleep(FREEZE_MS + database.latencyMs)
      recorder.note('lab.resumed', worker.number)
      worker.resume()
      // Its commit is refused. It was the leader before, so it also committed nothing.
      const isEnd = ({ process, type }: TimelineEvent) =>
        process === worker.number && /^(fill\.fenced|lease\.lost)$/.test(type)
      await recorder.find(isEnd, 1_000)
    },
  },

  redis: {
    async before({ fleet, recorder }) {
      ownRedis(fleet).freeze()
      recorder.note('lab.redis-frozen')
    },
    async after({ fleet, recorder }) {
      ownRedis(fleet).resume()
      recorder.note('lab.redis-resumed')
      // The processes probe Redis every half second. Then the next run has a shared cache again.
      await sleep(PROBE_MS)
    },
  },

  bus: {
    async during(scene) {
      const { fleet, recorder, database } = scene
      ownRedis(fleet)
      await workerOf(scene)
      recorder.note('lab.bus-cut')
      // The processes connect again at once. The cut lasts until the query has ended.
      const endMs = performance.now() + database.latencyMs + 100
      while (performance.now() < endMs) {
        await fleet.cutBus()
        await sleep(20)
      }
      recorder.note('lab.bus-free')
    },
  },

  purge: {
    spreadMs: PURGE_LOAD_MS,
    before: ({ warm }) => warm(),
    async during({ fleet, database, recorder, productId, onPurged }) {
      await sleep(PURGE_LOAD_MS / 3)
      const product = await findProduct(database, productId)
      const priceCents = (product?.priceCents ?? 0) + 1
      await changeProduct(database, productId, { priceCents })
      const [first] = fleet.processes
      recorder.note('lab.purged', first?.number)
      await first?.purge(`/api/products/${productId}`)
      onPurged(priceCents)
    },
  },

  origin: {
    isShortLived: true,
    async before({ database, recorder, warm }) {
      await warm()
      // The page has a lifetime of one second. It is stale now.
      await sleep(1_200)
      database.connected = false
      recorder.note('lab.origin-failed')
    },
    async after({ database, recorder }) {
      database.connected = true
      recorder.note('lab.origin-restored')
    },
  },
}

/**
 * The process that works for this run: the holder of the lease, or without leases the first one
 * that queries the database. Resolves in the middle of its query.
 */
async function workerOf({
  fleet,
  database,
  recorder,
  runId,
}: Scene): Promise<ShopProcess | undefined> {
  const isQuery = ({ type, fields }: TimelineEvent) =>
    type === 'lab.query' && fields.runId === runId
  const query = await recorder.find(isQuery, LONGEST_WAIT_MS)
  await sleep(database.latencyMs / 3)
  return fleet.processes.find(({ number }) => number === query?.process)
}

function ownRedis(fleet: Fleet) {
  if (fleet.redisServer !== undefined) return fleet.redisServer
  throw new Problem(
    409,
    'Not our Redis',
    'The lab only disturbs a Redis that the demo has started. Start it without REDIS_URL.',
  )
}
