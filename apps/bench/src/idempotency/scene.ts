// Everything that a case works with: servers of the library, a Redis, a key, and the runs.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Child, startChild } from '../lib/child.ts'
import { ask, type Got, type Sent as SentBytes } from '../lib/http.ts'
import { type RedisServer, startRedis } from '../lib/redis.ts'
import { type Verdict, wrong } from '../lib/verdict.ts'
import type { TableCase } from '../lib/verdict-table.ts'
import { pathOf, type RunSeen, type Way } from './orders.ts'
import type { Peer } from './peers.ts'

export interface Case extends TableCase {
  readonly timeoutMs?: number
  readonly run: (scene: Scene) => Promise<Verdict>
}

export interface Sent extends Pick<SentBytes, 'timeoutMs' | 'onRequest' | 'body'> {
  /** Values of the header, one line each. Default: the key of the scene. */
  readonly keys?: readonly string[]
  readonly user?: string
  /** Fields for the handler: the number of the attempt, and whether it must wait. */
  readonly attempt?: number
  readonly holdMs?: number
  readonly gated?: boolean
}

type Module = typeof import('./server.ts')

export interface Server {
  readonly port: number
  readonly process: Child<Module>
}

export interface Scene {
  readonly peer: Peer
  /** The key of the case, new for each case. Requests send it by default. */
  readonly key: string
  readonly redis: RedisServer
  readonly server: Server
  /** Starts one more server of the library on the same Redis. */
  readonly another: () => Promise<Server>
  readonly send: (way: Way, sent?: Sent, to?: Server) => Promise<Got>
  /** Sends the request again a little later, like a client. */
  readonly retry: (way: Way, sent?: Sent, to?: Server) => Promise<Got>
  /** All runs so far. Waits until the runs before the last response have been reported. */
  readonly runs: () => Promise<RunSeen[]>
  /** Waits for the first run. */
  readonly firstRun: () => Promise<RunSeen>
}

/** Some libraries store in the background. A client's retry comes later than that. */
const SETTLE_MS = 150
const CASE_MS = 25_000
const FIRST_RUN_MS = 5_000

/** Runs one case of one library with a Redis and servers of its own, and ends them. */
export async function runCase(peer: Peer, each: Case): Promise<Verdict> {
  await using redis = await startRedis({ isDurable: true })
  const servers: Server[] = []
  try {
    return await inProcesses(peer, each, redis, servers)
  } finally {
    for (const server of servers) await kill(server)
  }
}

async function inProcesses(
  peer: Peer,
  each: Case,
  redis: RedisServer,
  servers: Server[],
): Promise<Verdict> {
  const key = randomUUID()
  const runs: RunSeen[] = []
  const onEvent = (run: unknown) => void runs.push(run as RunSeen)
  const another = async (): Promise<Server> => {
    const args: [string, string] = [peer.id, redis.url]
    const process = await startChild<Module>('idempotency/server', args, { onEvent })
    const started = { process, port: await process.call.port() }
    servers.push(started)
    return started
  }
  const server = await another()
  const seen = () => runs.filter(({ scene }) => scene === key)
  const send: Scene['send'] = (way, sent = {}, to = server) =>
    ask(to.port, pathOf(way), asBytes(key, sent))
  const scene: Scene = {
    ...{ peer, key, redis, server, another, send },
    async retry(way, sent, to) {
      await sleep(SETTLE_MS)
      return send(way, sent, to)
    },
    async runs() {
      await sleep(50)
      return seen()
    },
    async firstRun() {
      for (const since = performance.now(); performance.now() - since < FIRST_RUN_MS; ) {
        const [first] = seen()
        if (first !== undefined) return first
        await sleep(5)
      }
      throw new Error('the handler did not run')
    },
  }
  const { timeoutMs = CASE_MS } = each
  const verdict = await Promise.race([
    each.run(scene).catch((error: Error) => wrong(`the case failed: ${error.message}`)),
    sleep(timeoutMs, wrong(`the case was not over in ${timeoutMs / 1_000} s`), { ref: false }),
  ])
  if (!hasCrashed(server) || verdict.seen.includes('crashed')) return verdict
  console.error(server.process.errors())
  return wrong(
    verdict.kind === 'fails' ? `${verdict.seen}; the server crashed` : 'the server crashed',
  )
}

const killed = new WeakSet<Server>()

/** Sends SIGKILL, like a crash or the kernel. */
export async function kill(server: Server): Promise<void> {
  killed.add(server)
  await server.process[Symbol.asyncDispose]()
}

export const signal = ({ process: { pid } }: Server, name: 'SIGSTOP' | 'SIGCONT'): void =>
  void process.kill(pid, name)

/** True if the process has ended and the case did not kill it. */
export const hasCrashed = (server: Server): boolean =>
  server.process.hasEnded() && !killed.has(server)

/** `X-Scene` distinguishes the runs of one case from late runs of another. */
function asBytes(scene: string, sent: Sent): SentBytes {
  const { keys = [scene], user = 'alice', body = '{"amount":1}', attempt, holdMs, gated } = sent
  const headers = ['Host', 'bench', 'Content-Type', 'application/json', 'X-Scene', scene]
  headers.push('Content-Length', String(Buffer.byteLength(body)), 'X-User', user)
  for (const key of keys) headers.push('Idempotency-Key', key)
  if (attempt) headers.push('X-Attempt', String(attempt))
  if (holdMs) headers.push('X-Hold-Ms', String(holdMs))
  if (gated) headers.push('X-Gated', 'yes')
  return { ...sent, method: 'POST', headers, body }
}

export const inWords = ({ failure, status }: Got): string => failure ?? String(status)

/** A 4xx: the request was refused or has to wait, so the client knows that it did nothing. */
export const isRefusal = ({ status }: Got): boolean => status >= 400 && status < 500

/** Returns how the second response differs. Empty if both are equal. */
export function differenceOf(first: Got, again: Got, headers: readonly string[] = []): string {
  if (again.status !== first.status) return `retry got ${inWords(again)}`
  const lost = headers.filter((name) => again.headers[name] !== first.headers[name])
  const facts = lost.map((name) => `${name} ${again.headers[name] ? 'changed' : 'lost'}`)
  if (!again.body.equals(first.body)) facts.unshift('another body')
  return facts.length === 0 ? '' : `replayed with ${facts.join(', ')}`
}
