// A Redis whose wall clock a test sets while it runs. TIME and the expiry of keys move, the clocks
// of this process do not. It needs Linux, a C compiler and a redis-server on the PATH. Without them
// contracts wait in real time. Tests that set the clock are skipped with a message; in CI that is
// an error.

import { inject } from 'vitest'
import { movableClock, whyNoClock } from './movable-clock.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

/** The time of a test, on servers that are started with `env`. */
export interface RedisTime {
  readonly env?: NodeJS.ProcessEnv
  /** Lets this much time pass: at once, or by waiting if no server's clock can be moved here. */
  pass(ms: number): Promise<void>
  /**
   * Makes the clock of the servers run 30 times slower from now on, so that nothing expires while a
   * busy machine stalls. Not while a Cluster forms, because its nodes wait for their clocks.
   */
  slowDown(): Promise<void>
  stop(): Promise<void>
}

export async function startRedisTime(): Promise<RedisTime> {
  const why = await missing()
  if (why !== undefined) {
    console.warn(`The contracts of stores wait in real time: ${why}`)
    const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
    return { pass, slowDown: async () => {}, stop: async () => {} }
  }
  const { env, setBy, slowDown, stop } = await movableClock()
  let passedMs = 0
  const pass = (ms: number) => {
    passedMs += ms
    return setBy(passedMs)
  }
  return { env, pass, slowDown, stop }
}

export interface MovableRedis extends RedisServer {
  /** Sets the difference between the server's clock and the machine's. */
  setClockBy(ms: number): Promise<void>
}

/**
 * The reason why this machine cannot run a server with a movable clock, or undefined. Prints the
 * reason, and throws it in CI.
 */
export async function whyClockStandsStill(): Promise<string | undefined> {
  const why = await missing()
  if (why === undefined) return undefined
  const message = `The server's clock cannot be moved here: ${why}`
  if (process.env.CI) throw new Error(message)
  console.warn(`SKIPPED: ${message}`)
  return message
}

async function missing(): Promise<string | undefined> {
  const { kind } = inject('redisSource')
  if (kind !== 'binary') return 'the Redis of the tests runs in Docker; install redis-server'
  return whyNoClock()
}

/** Call only if `whyClockStandsStill` gave no reason. */
export async function startMovableRedis(): Promise<MovableRedis> {
  const clock = await movableClock()
  const server = await startRedis({ env: clock.env })
  const stop = async () => {
    await server.stop()
    await clock.stop()
  }
  return { ...server, setClockBy: clock.setBy, stop, [Symbol.asyncDispose]: stop }
}
