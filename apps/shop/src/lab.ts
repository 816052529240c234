// Handlers of the lab: stampede, double click, database switch and statistics.

import type { IncomingMessage } from 'node:http'
import { readCustomer } from './customer.ts'
import { doubleClick, readDoubleClick } from './double-click.ts'
import type { Address } from './fire.ts'
import { requireLocal } from './lab-guard.ts'
import { createRunner, type Route, type Runner, readStampedeOrder } from './lab-run.ts'
import { createTurn, type Turn } from './lab-turn.ts'
import { readJson, refuseUnknownFields } from './read-json.ts'
import { json, noContent, Problem, respond, type ShopResponse } from './response.ts'
import type { Shop } from './shop.ts'

/** The app as the page describes it. */
export interface About {
  readonly framework: string
  readonly store: 'memory' | 'Redis'
  readonly ttlMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  /** `stampede.stats()`. */
  cacheStats(): unknown
}

/** How the lab reaches the processes of a fleet. Without a fleet it reaches its own server. */
export interface FleetRoute {
  next(): Address
  readonly retries: number
  /** The fleet as the page describes it. */
  describe(): unknown
}

export interface Lab {
  stats(message: IncomingMessage): Promise<ShopResponse>
  resetStats(message: IncomingMessage): Promise<ShopResponse>
  stampede(message: IncomingMessage): Promise<ShopResponse>
  doubleClick(message: IncomingMessage): Promise<ShopResponse>
  database(message: IncomingMessage): Promise<ShopResponse>
}

// The lab's responses describe one moment, so no cache may store them.
export const NO_STORE = { 'cache-control': 'no-store' }
/** 2 000 uncached requests at 300 ms on 20 connections need 30 s. */
const LONGEST_RUN_MS = 60_000

/** `turn`: shared with other runs of the lab, so that only one runs at a time. */
export function createLab(
  shop: Pick<Shop, 'database' | 'originRuns'>,
  about: About,
  fleet?: FleetRoute,
  turn: Turn = createTurn(),
): Lab {
  const { database, originRuns } = shop
  const runner = createRunner(originRuns)
  let since = new Date()
  return {
    stats: (message) =>
      forLocalCallers(message, async () => {
        const processes = fleet?.describe() ?? null
        return json({ ...(await describe(shop, about, runner)), fleet: processes, since }, NO_STORE)
      }),
    resetStats: (message) =>
      forLocalCallers(message, () => {
        originRuns.reset()
        since = new Date()
        return noContent()
      }),
    stampede: (message) =>
      forLocalCallers(message, async () => {
        const order = readStampedeOrder(await readJson(message))
        const run = () => runner.run(order, routeOf(message, fleet), deadline())
        return json(await turn.take(run), NO_STORE)
      }),
    doubleClick: (message) =>
      forLocalCallers(message, async () => {
        const customer = readCustomer(message)
        const click = readDoubleClick(await readJson(message))
        const clicker = { ...routeOf(message, fleet), customer, deadline: deadline() }
        return json(await turn.take(() => doubleClick(database, click, clicker)), NO_STORE)
      }),
    database: (message) =>
      forLocalCallers(message, async () => {
        database.connected = readPlug(await readJson(message))
        return json({ connected: database.connected }, NO_STORE)
      }),
  }
}

/** Returns the response of `handler` to callers on this machine. */
export function forLocalCallers(
  message: IncomingMessage,
  handler: () => ShopResponse | Promise<ShopResponse>,
): Promise<ShopResponse> {
  return respond(() => {
    requireLocal(message)
    return handler()
  })
}

async function describe(
  { database, originRuns }: Pick<Shop, 'database' | 'originRuns'>,
  { cacheStats, ...fixed }: About,
  runner: Runner,
) {
  return {
    ...fixed,
    originLatencyMs: database.latencyMs,
    databaseConnections: database.connections,
    databaseConnected: database.connected,
    originRuns: originRuns.byRoute(),
    stampede: await cacheStats(),
    running: runner.running() ?? null,
  }
}

export function deadline(): AbortSignal {
  return AbortSignal.timeout(LONGEST_RUN_MS)
}

function readPlug(body: Record<string, unknown>): boolean {
  refuseUnknownFields(body, ['connected'])
  if (typeof body.connected === 'boolean') return body.connected
  throw new Problem(400, 'Bad value', 'connected must be true or false.')
}

export function routeOf(message: IncomingMessage, fleet: FleetRoute | undefined): Route {
  const hostHeader = message.headers.host ?? ''
  if (fleet !== undefined) return { hostHeader, next: fleet.next, retries: fleet.retries }
  const own = ownAddress(message)
  return { hostHeader, next: () => own, retries: 0 }
}

/** The local address of this request's connection. It needs no name lookup and no proxy. */
function ownAddress({ socket }: IncomingMessage): Address {
  return { host: socket.localAddress ?? '127.0.0.1', port: socket.localPort ?? 0 }
}
