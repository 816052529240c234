// Everything that a scenario works with: caches of several processes, an origin, and a Redis.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { urlOf } from '../lib/redis.ts'
import { short } from '../lib/verdict.ts'
import type { Instance, Settings } from './peer.ts'
import { openPeer } from './peers.ts'

/** Some caches subscribe after their constructor has returned. */
const SETTLE_MS = 150

/** Thrown when a scenario finds out that the cache lacks a feature. */
export class NotSupported extends Error {}

/** One value that can change. Scenarios count its loads, hold them, or let them fail. */
export class Origin {
  value = 'old'
  calls = 0
  mostAtOnce = 0
  #atOnce = 0
  /** Called in the n-th load, after it has read the value and before it returns it. */
  during: (call: number) => Promise<unknown> = () => sleep(20)

  readonly load = async (): Promise<string> => {
    this.calls += 1
    this.#atOnce += 1
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#atOnce)
    const read = this.value
    try {
      await this.during(this.calls)
      return read
    } finally {
      this.#atOnce -= 1
    }
  }

  /** Resolves when the n-th load has begun, or after the time. */
  async begun(n: number, withinMs = 3_000): Promise<void> {
    const since = performance.now()
    while (this.calls < n && performance.now() - since < withinMs) await sleep(2)
  }

  /** Sets the counts to 0. */
  reset(): void {
    this.calls = 0
    this.mostAtOnce = 0
    this.during = () => sleep(20)
  }
}

export interface Stage {
  readonly peerId: string
  readonly origin: Origin
  readonly redisPort: number
  /** A connection for commands of the scenario. */
  readonly admin: Redis
  readonly signalRedis: (signal: 'SIGSTOP' | 'SIGKILL') => void
  /** Opens the cache of one more process, with its own connections, and makes a first call. */
  readonly open: (settings?: Partial<Settings>) => Promise<Instance>
}

export async function createStage(peerId: string, port: number, pid: number): Promise<Stage> {
  const origin = new Origin()
  let opened = 0
  return {
    peerId,
    origin,
    redisPort: port,
    admin: await connectAdmin(port),
    signalRedis: (signal) => void process.kill(pid, signal),
    async open(settings = {}) {
      const common = { ttlMs: 600_000, staleMs: 0, tags: [], client: 'guarded' } as const
      const given = { redisUrl: urlOf(port), ...common, load: origin.load, ...settings }
      const instance = await openPeer(peerId, given)
      await sleep(SETTLE_MS)
      opened += 1
      await instance.get(`first-${opened}`)
      origin.reset()
      return instance
    },
  }
}

/** Connects as a user of its own, so that restrictions for the caches do not apply to it. */
async function connectAdmin(port: number): Promise<Redis> {
  const setUp = new Redis(port)
  await setUp.call('ACL', 'SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all')
  setUp.disconnect()
  const admin = new Redis(port, { username: 'admin', password: 'admin' })
  admin.on('error', () => {})
  return admin
}

/** The result of one caller, and its time. */
export type Result =
  | { readonly kind: 'value'; readonly value: unknown; readonly ms: number }
  | { readonly kind: 'error'; readonly message: string; readonly ms: number }
  | { readonly kind: 'none'; readonly ms: number }

/** One call with a time limit. */
export async function watch(call: () => Promise<unknown>, limitMs = 5_000): Promise<Result> {
  const since = performance.now()
  const ms = () => performance.now() - since
  // `async` turns a synchronous throw into a rejection.
  const settled = (async () => call())().then(
    (value): Result => ({ kind: 'value', value, ms: ms() }),
    (error: unknown): Result => {
      if (error instanceof NotSupported) throw error
      const message = error instanceof Error ? error.message : String(error)
      return { kind: 'error', message, ms: ms() }
    },
  )
  return Promise.race([
    settled,
    sleep(limitMs, { kind: 'none', ms: limitMs } as const, { ref: false }),
  ])
}

export type Reached = Result & { readonly reached: boolean }

/** Repeats the call until it returns `wanted`. The time counts from the first call. */
export async function until(
  wanted: string,
  call: () => Promise<unknown>,
  limitMs: number,
): Promise<Reached> {
  const since = performance.now()
  for (;;) {
    const result = await watch(call, limitMs)
    const ms = performance.now() - since
    const reached = result.kind === 'value' && result.value === wanted
    if (reached || ms > limitMs) return { ...result, ms, reached }
    await sleep(50)
  }
}

export function inWords(result: Result): string {
  const ms = `${Math.round(result.ms)} ms`
  if (result.kind === 'value') return `${shown(result.value)} in ${ms}`
  return result.kind === 'none'
    ? `no result in ${ms}`
    : `an error in ${ms} (${short(result.message)})`
}

export function shown(value: unknown): string {
  if (value instanceof Error) return `an Error object (${short(value.message)})`
  return typeof value === 'string' ? `"${value}"` : String(value)
}
