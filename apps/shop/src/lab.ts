// The lab's handlers: fire a stampede, click twice, pull the database's plug, and tell what happened.

import type { IncomingMessage } from 'node:http'
import { type Answer, answer, json, nothing, Problem } from './answer.ts'
import { readCustomer } from './customer.ts'
import { doubleClick, readDoubleClick } from './double-click.ts'
import type { Target } from './fire.ts'
import { refuseStrangers } from './lab-guard.ts'
import { createRunner, type Runner, readStampedeOrder } from './lab-run.ts'
import { createTurn } from './lab-turn.ts'
import { readJson, refuseUnknownFields } from './read-json.ts'
import type { Shop } from './shop.ts'

/** What the page shows of the app it talks to. */
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
  stats(message: IncomingMessage): Promise<Answer>
  resetStats(message: IncomingMessage): Promise<Answer>
  stampede(message: IncomingMessage): Promise<Answer>
  doubleClick(message: IncomingMessage): Promise<Answer>
  database(message: IncomingMessage): Promise<Answer>
}

// Nothing here may be cached, by anyone: every answer is about this very moment.
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
      near(message, () => json({ ...describe(shop, about, runner), since }, NO_STORE)),
    resetStats: (message) =>
      near(message, () => {
        originRuns.reset()
        since = new Date()
        return nothing()
      }),
    stampede: (message) =>
      near(message, async () => {
        const order = readStampedeOrder(await readJson(message))
        const run = () => runner.run(order, ownAddress(message), inTime())
        return json(await turn.take(run), NO_STORE)
      }),
    doubleClick: (message) =>
      near(message, async () => {
        const customer = readCustomer(message)
        const click = readDoubleClick(await readJson(message))
        const hostHeader = message.headers.host ?? ''
        const origin = ownAddress(message)
        const clicker = { origin, hostHeader, customer, deadline: inTime() }
        return json(await turn.take(() => doubleClick(database, click, clicker)), NO_STORE)
      }),
    database: (message) =>
      near(message, async () => {
        database.connected = readPlug(await readJson(message))
        return json({ connected: database.connected }, NO_STORE)
      }),
  }
}

/** The answer of `handler`, for callers on this machine. */
function near(message: IncomingMessage, handler: () => Answer | Promise<Answer>): Promise<Answer> {
  return answer(() => {
    refuseStrangers(message)
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

function inTime(): AbortSignal {
  return AbortSignal.timeout(LONGEST_RUN_MS)
}

function readPlug(body: Record<string, unknown>): boolean {
  refuseUnknownFields(body, ['connected'])
  if (typeof body.connected === 'boolean') return body.connected
  throw new Problem(400, 'Bad value', 'connected must be true or false.')
}

/** Where this very request came in: no name to resolve, no proxy in between. */
function ownAddress({ socket }: IncomingMessage): Pick<Target, 'host' | 'port'> {
  return { host: socket.localAddress ?? '127.0.0.1', port: socket.localPort ?? 0 }
}
