// Sends many requests to one address at once, and sums up the responses. Called by lab.ts.

import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from 'node:http'
import { setImmediate } from 'node:timers/promises'

/** Number of sockets. Further requests wait for one, and the wait counts as latency. */
const MAX_SOCKETS = 1000
/** Number of requests between two turns of the event loop. */
const BATCH = 100

export interface Target {
  readonly host: string
  readonly port: number
  readonly path: string
  /** Default GET. */
  readonly method?: 'GET' | 'POST'
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string
}

export interface Summary {
  readonly requests: number
  /** By status. A replay is `201 replayed`. `none` counts requests without a response. */
  readonly statuses: Record<string, number>
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** By Cache-Status, without the parts that differ per request. `none`: no such header. */
  readonly cacheStatus: Record<string, number>
}

interface Shot {
  readonly status: string
  readonly cacheStatus: string
  readonly elapsedMs: number
}

/** Never rejects. A request that failed, or was open when `deadline` aborted, counts as `none`. */
export async function fire(
  target: Target,
  requests: number,
  deadline: AbortSignal,
  onShot: () => void = () => {},
): Promise<Summary> {
  const agent = new Agent({ keepAlive: true, maxSockets: Math.min(requests, MAX_SOCKETS) })
  const sent: ClientRequest[] = []
  // One listener for all requests: Node warns of a leak if a signal has two thousand.
  const giveUp = () => {
    for (const one of sent) one.destroy()
  }
  deadline.addEventListener('abort', giveUp, { once: true })
  const shots: Array<Promise<Shot>> = []
  const { body, ...address } = target
  while (shots.length < requests) {
    const firedAt = performance.now()
    const shot = shoot(request({ ...address, agent }), body, sent).then((reply) => {
      onShot()
      return { ...reply, elapsedMs: performance.now() - firedAt }
    })
    // The server runs in this process. It needs a turn now and then, or its queue of connections
    // overflows.
    if (shots.push(shot) % BATCH === 0) await setImmediate()
  }
  const summary = summarise(await Promise.all(shots))
  deadline.removeEventListener('abort', giveUp)
  agent.destroy()
  return summary
}

function shoot(
  one: ClientRequest,
  body: string | undefined,
  sent: ClientRequest[],
): Promise<Omit<Shot, 'elapsedMs'>> {
  sent.push(one)
  return new Promise((resolve) => {
    const failed = () => resolve({ status: 'none', cacheStatus: 'none' })
    one.on('response', (message: IncomingMessage) => {
      const replayed = message.headers['idempotency-replayed'] === 'true'
      const status = `${message.statusCode}${replayed ? ' replayed' : ''}`
      const cacheStatus = kindOf(message.headers['cache-status'])
      message.resume()
      message.on('end', () => resolve({ status, cacheStatus }))
      message.on('error', failed)
    })
    one.on('error', failed)
    one.end(body)
  })
}

/** `Stampede; fwd=uri-miss; fwd-status=200; stored` → `fwd=uri-miss; stored`: drops the details. */
export function kindOf(cacheStatus: string | string[] | undefined): string {
  if (cacheStatus === undefined || cacheStatus.length === 0) return 'none'
  const text = typeof cacheStatus === 'string' ? cacheStatus : cacheStatus.join(', ')
  const parts = text.split(';').map((part) => part.trim())
  const kept = parts
    .slice(1)
    .filter((part) => part !== '' && !/^(ttl=|key=|fwd-status=200$)/.test(part))
  // A hit with a negative ttl is stale (RFC 9211 §2.4), and gets a line of its own.
  const stale = kept[0] === 'hit' && parts.some((part) => part.startsWith('ttl=-'))
  return (stale ? ['hit (stale)', ...kept.slice(1)] : kept).join('; ') || 'none'
}

export function summarise(shots: readonly Shot[]): Summary {
  const sorted = shots.map((shot) => shot.elapsedMs).sort((a, b) => a - b)
  return {
    requests: shots.length,
    statuses: histogram(shots.map((shot) => shot.status)),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1),
    cacheStatus: histogram(shots.map((shot) => shot.cacheStatus)),
  }
}

/** Nearest rank, to a tenth of a millisecond. */
function percentile(sorted: readonly number[], share: number): number {
  const rank = Math.max(Math.ceil(share * sorted.length), 1)
  return Math.round((sorted[rank - 1] ?? 0) * 10) / 10
}

/** Most frequent first. */
function histogram(names: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return Object.fromEntries([...counts].sort(([, a], [, b]) => b - a))
}
