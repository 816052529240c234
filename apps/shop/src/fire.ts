// Sends many requests to one address at once, and sums up the responses. Called by lab.ts.

import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from 'node:http'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

/** Number of sockets. Further requests wait for one, and the wait counts as latency. */
const MAX_SOCKETS = 1000
/** Number of requests between two turns of the event loop. */
const BATCH = 100

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Target {
  readonly path: string
  /** Default GET. */
  readonly method?: 'GET' | 'POST'
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string
}

export interface Volley {
  readonly target: Target
  readonly requests: number
  /** Returns the address for the next request: the shop, or one of its processes. */
  next(): Address
  readonly deadline: AbortSignal
  /**
   * How often a GET is sent again, to the next address, if its connection breaks. A load balancer
   * does this, too. Default 0.
   */
  readonly retries?: number
  /** Time from the first to the last request. Default 0: all at once. */
  readonly spreadMs?: number
  /** Called after each response with its moment and its body. Failed requests have no body. */
  onShot?(sentAt: number, body: string | undefined): void
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
export async function fire(volley: Volley): Promise<Summary> {
  const { requests, deadline, spreadMs = 0, onShot } = volley
  const agent = new Agent({ keepAlive: true, maxSockets: Math.min(requests, MAX_SOCKETS) })
  const sent: ClientRequest[] = []
  // One listener for all requests: Node warns of a leak if a signal has two thousand.
  const giveUp = () => {
    for (const one of sent) one.destroy()
  }
  deadline.addEventListener('abort', giveUp, { once: true })
  const shots: Array<Promise<Shot>> = []
  const startedAt = performance.now()
  while (shots.length < requests) {
    const ahead = (shots.length * spreadMs) / requests - (performance.now() - startedAt)
    if (ahead > 0) await sleep(ahead)
    const firedAt = performance.now()
    const shot = shoot(volley, agent, sent, volley.retries ?? 0).then(({ body, ...reply }) => {
      onShot?.(firedAt, body)
      return { ...reply, elapsedMs: performance.now() - firedAt }
    })
    // The server may run in this process. It needs a turn now and then, or its queue of connections
    // overflows.
    if (shots.push(shot) % BATCH === 0) await setImmediate()
  }
  const summary = summarise(await Promise.all(shots))
  deadline.removeEventListener('abort', giveUp)
  agent.destroy()
  return summary
}

interface Reply extends Omit<Shot, 'elapsedMs'> {
  readonly body: string | undefined
}

async function shoot(
  volley: Volley,
  agent: Agent,
  sent: ClientRequest[],
  retries: number,
): Promise<Reply> {
  const { body, ...target } = volley.target
  const one = request({ ...target, ...volley.next(), agent })
  sent.push(one)
  if (volley.deadline.aborted) one.destroy()
  const reply = await replyTo(one, body)
  const isLost = reply.status === 'none' && retries > 0 && !volley.deadline.aborted
  return isLost ? shoot(volley, agent, sent, retries - 1) : reply
}

function replyTo(one: ClientRequest, body: string | undefined): Promise<Reply> {
  return new Promise((resolve) => {
    const failed = () => resolve({ status: 'none', cacheStatus: 'none', body: undefined })
    one.on('response', (message: IncomingMessage) => {
      const replayed = message.headers['idempotency-replayed'] === 'true'
      const status = `${message.statusCode}${replayed ? ' replayed' : ''}`
      const cacheStatus = kindOf(message.headers['cache-status'])
      let text = ''
      message.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      message.on('end', () => resolve({ status, cacheStatus, body: text }))
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
