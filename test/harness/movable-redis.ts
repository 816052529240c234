// A Redis whose wall clock a test sets while it runs. TIME and the expiry of keys move, the clocks
// of this process do not. It needs Linux, a C compiler and a redis-server on the PATH. Without them
// contracts wait in real time. Tests that set the clock are skipped with a message; in CI that is
// an error.

import { execFile } from 'node:child_process'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'

const SOURCE = fileURLToPath(new URL('./clock-offset.c', import.meta.url))
const SLOWNESS = 30

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
  if (process.platform !== 'linux') return `LD_PRELOAD needs Linux, this is ${process.platform}`
  const { kind } = inject('redisSource')
  if (kind !== 'binary') return 'the Redis of the tests runs in Docker; install redis-server'
  try {
    await promisify(execFile)('cc', ['--version'])
  } catch {
    return 'there is no C compiler; install cc'
  }
  return undefined
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

/** A clock for all servers that are started with `env`. */
async function movableClock() {
  const folder = await mkdtemp(join(tmpdir(), 'stampede-clock-'))
  const [library, offset] = [join(folder, 'clock-offset.so'), join(folder, 'offset')]
  await promisify(execFile)('cc', ['-shared', '-fPIC', '-O2', '-o', library, SOURCE])
  const file = await open(offset, 'w+')
  // Written in place, all 8 bytes at once, because the servers have the page mapped.
  const write = async (at: number, number: bigint): Promise<void> => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(number)
    await file.write(bytes, 0, 8, 8 * at)
  }
  const setBy = (ms: number) => write(0, BigInt(Math.round(ms)) * 1_000n)
  const slowDown = async () => {
    await write(2, BigInt(Date.now()) * 1_000n)
    await write(1, BigInt(SLOWNESS))
  }
  for (const at of [0, 1, 2]) await write(at, 0n)
  const stop = async () => {
    await file.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { env: { LD_PRELOAD: library, STAMPEDE_CLOCK_OFFSET: offset }, setBy, slowDown, stop }
}
