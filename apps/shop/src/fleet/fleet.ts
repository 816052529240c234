// The fleet: shop processes on one Redis, with the address of the next one for each request.

import type { Redis } from 'ioredis'
import type { Database } from '../database.ts'
import type { Address } from '../fire.ts'
import type { OriginRuns } from '../origin-runs.ts'
import type { Recorder } from './recorder.ts'
import type { RedisServer } from './redis-server.ts'
import {
  type ProcessState,
  type ProcessSurroundings,
  type ShopProcess,
  startShopProcess,
} from './shop-process.ts'
import type { Watchdog } from './watchdog.ts'

export interface FleetState {
  readonly processes: readonly { number: number; pid: number | undefined; state: ProcessState }[]
  /** Whether the lab may freeze Redis and cut its connections: only if the demo started it. */
  readonly ownsRedis: boolean
}

export interface Fleet {
  readonly processes: readonly ShopProcess[]
  readonly state: FleetState
  /** The recorder of the running run gets all events. */
  recorder: Recorder | undefined
  /** Resolves when all processes accept requests. */
  ready(): Promise<void>
  /** Address of the next process that is up, in turn. Undefined if none is up. */
  next(): Address | undefined
  /** Undefined: Redis is not ours. */
  readonly redisServer: RedisServer | undefined
  /** Ends all connections that processes use for Pub/Sub. They connect again. */
  cutBus(): Promise<void>
  stop(): Promise<void>
}

export interface FleetOptions {
  readonly processes: number
  readonly database: Promise<Database>
  readonly originRuns: OriginRuns
  readonly redis: Redis
  readonly redisServer: RedisServer | undefined
  readonly watchdog: Watchdog
  /** Environment of the shop processes. */
  readonly env: NodeJS.ProcessEnv
  onState(): void
}

export function startFleet(options: FleetOptions): Fleet {
  const { database, originRuns, redis, redisServer, watchdog, env, onState } = options
  const around: ProcessSurroundings = {
    database,
    originRuns,
    watchdog,
    env,
    onEvents: (from, events) => {
      for (const event of events) fleet.recorder?.add(from.number, event)
    },
    onOriginRun: (from, runId) => {
      if (runId !== null) fleet.recorder?.note('lab.query', from.number, { runId })
    },
    onState: (from) => {
      if (from.state === 'up') fleet.recorder?.note('lab.up', from.number)
      onState()
    },
  }
  const processes = Array.from({ length: options.processes }, (_, index) =>
    startShopProcess(index + 1, around),
  )
  let turn = 0
  const fleet: Fleet = {
    processes,
    redisServer,
    recorder: undefined,
    get state() {
      const shown = processes.map(({ number, pid, state }) => ({ number, pid, state }))
      return { processes: shown, ownsRedis: redisServer !== undefined }
    },
    ready: async () => void (await Promise.all(processes.map((each) => each.ready()))),
    next() {
      for (const _ of processes) {
        const { port, state } = processes[turn++ % processes.length] as ShopProcess
        if (state === 'up' && port !== undefined) return { host: '127.0.0.1', port }
      }
      return undefined
    },
    cutBus: async () => void (await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')),
    stop: async () => void (await Promise.all(processes.map((each) => each.stop()))),
  }
  return fleet
}
