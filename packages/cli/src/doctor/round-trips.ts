// Checks that need round trips: latency, clock, and messages.

import { randomBytes } from 'node:crypto'
import { names } from '@stampede/redis/operator'
import type { Redis } from 'ioredis'
import { duration } from '../format.ts'
import type { Connections } from './connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

const PINGS = 20
/** The default commandTimeoutMs of redisStore. */
const BUDGET_MS = 250
/** From this median on, a lookup of several round trips may exceed the budget. */
const SLOW_MS = BUDGET_MS / 3

export async function latencyFinding(redis: Redis): Promise<Finding> {
  const times: number[] = []
  for (let i = 0; i < PINGS; i++) {
    const sentAt = performance.now()
    await redis.ping()
    times.push(performance.now() - sentAt)
  }
  times.sort((a, b) => a - b)
  const at = (part: number) => times[Math.min(PINGS - 1, Math.floor(part * PINGS))] ?? 0
  const [median, slowest] = [at(0.5), at(0.99)]
  const text = `p50 ${median.toFixed(1)} ms, p99 ${slowest.toFixed(1)} ms of ${PINGS} pings`
  if (median < SLOW_MS && slowest < BUDGET_MS) return ok('latency', text)
  const fix = `raise commandTimeoutMs (default ${BUDGET_MS}) above ${Math.ceil(Math.max(3 * median, slowest))}, or run Redis nearer`
  return warn('latency', text, fix)
}

/** A greater difference is reported. Responses have a Date of whole seconds. */
const MOST_SKEW_MS = 1_000

/** `wallNow`: the clock of this process. */
export async function clockFinding(redis: Redis, wallNow: () => number): Promise<Finding> {
  const sentAt = wallNow()
  const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number)
  const receivedAt = wallNow()
  const serverMs = seconds * 1_000 + microseconds / 1_000
  // The server read its clock at some moment between the two readings here.
  const aheadMs = serverMs > receivedAt ? serverMs - receivedAt : Math.min(0, serverMs - sentAt)
  if (Math.abs(aheadMs) <= MOST_SKEW_MS) return ok('clock', 'agrees with this machine within 1 s')
  const text = `the server’s clock is ${duration(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'} this machine`
  return warn('clock', text, 'run an NTP client such as chrony on both machines')
}

/** Whether a published message arrives on the subscriber connection. */
export async function messagesFinding(
  { client, database, subscriber }: Connections,
  prefix: string,
  waitMs: number,
): Promise<Finding> {
  const channel = `${names(prefix, database).wakePrefix}doctor-${randomBytes(6).toString('hex')}`
  try {
    await subscriber.subscribe(channel)
    const arrived = new Promise<boolean>((resolve) => {
      subscriber.once('message', () => resolve(true))
      setTimeout(() => resolve(false), waitMs).unref()
    })
    const sentAt = performance.now()
    await client.call('PUBLISH', channel, 'hello')
    if (await arrived) {
      const tookMs = (performance.now() - sentAt).toFixed(1)
      return ok('messages', `a published message arrived after ${tookMs} ms`)
    }
  } catch (error) {
    const { name, message } = error as Error
    if (name !== 'ReplyError') throw error
    const fix = 'allow PUBLISH and SUBSCRIBE on the channels of the prefix'
    return fail('messages', `messages do not work: ${message}`, fix)
  }
  const text = `a published message did not arrive within ${waitMs} ms, so waiters are woken late`
  return fail(
    'messages',
    text,
    'check proxies between the app and Redis: they must support Pub/Sub',
  )
}
