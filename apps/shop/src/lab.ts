// Handlers of the lab: stampede, double click, database switch and statistics.

import type { IncomingMessage } from 'node:http'
import { readCustomer } from './customer.ts'
import { doubleClick, readDoubleClick } from './double-click.ts'
import type { Target } from './fire.ts'
import { requireLocal } from './lab-guard.ts'
import { createRunner, type Runner, readStampedeOrder } from './lab-run.ts'
import { createTurn } from './lab-turn.ts'
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

export interface Lab {
  stats(message: IncomingMessage): Promise<ShopResponse>
  resetStats(message: IncomingMessage): Promise<ShopResponse>
  stampede(message: IncomingMessage): Promise<ShopResponse>
  doubleClick(message: IncomingMessage): Promise<ShopResponse>
  database(message: IncomingMessage): Promise<ShopResponse>
}

// The lab's responses describe one moment, so no cache may store them.
const NO_STORE = { 'cache-control': 'no-store' }
/** 2 000 uncached requests at 300 ms on 20 connections need 30 s. */
const LONGEST_RUN_MS = 60_000

export function createLab(shop: Shop, about: About): Lab {
  const { database, originRuns } = shop
  const runner = createRunner(originRuns)
  const turn = createTurn()
  let since = new Date()
  return {
    stats: (message) =>
      forLocalCallers(message, () => json({ ...describe(shop, about, runner), since }, NO_STORE)),
    resetStats: (message) =>
      forLocalCallers(message, () => {
        originRuns.reset()
        since = new Date()
        return noContent()
      }),
    stampede: (message) =>
      forLocalCallers(message, async () => {
        const order = readStampedeOrder(await readJson(message))
        const run = () => runner.run(order, ownAddress(message), deadline())
        return json(await turn.take(run), NO_STORE)
      }),
    doubleClick: (message) =>
      forLocalCallers(message, async () => {
        const customer = readCustomer(message)
        const click = readDoubleClick(await readJson(message))
        const hostHeader = message.headers.host ?? ''
        const origin = ownAddress(message)
        const clicker = { origin, hostHeader, customer, deadline: deadline() }
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
function forLocalCallers(
  message: IncomingMessage,
  handler: () => ShopResponse | Promise<ShopResponse>,
): Promise<ShopResponse> {
  return respond(() => {
    requireLocal(message)
    return handler()
  })
}

function describe({ database, originRuns }: Shop, { cacheStats, ...fixed }: About, runner: Runner) {
  return {
    ...fixed,
    originLatencyMs: database.latencyMs,
    databaseConnections: database.connections,
    databaseConnected: database.connected,
    originRuns: originRuns.byRoute(),
    stampede: cacheStats(),
    running: runner.running() ?? null,
  }
}

function deadline(): AbortSignal {
  return AbortSignal.timeout(LONGEST_RUN_MS)
}

function readPlug(body: Record<string, unknown>): boolean {
  refuseUnknownFields(body, ['connected'])
  if (typeof body.connected === 'boolean') return body.connected
  throw new Problem(400, 'Bad value', 'connected must be true or false.')
}

/** The local address of this request's connection. It needs no name lookup and no proxy. */
function ownAddress({ socket }: IncomingMessage): Pick<Target, 'host' | 'port'> {
  return { host: socket.localAddress ?? '127.0.0.1', port: socket.localPort ?? 0 }
}
