// A wall clock for servers, which a test sets while they run. It needs Linux and a C compiler.

import { execFile } from 'node:child_process'
import { chmod, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const SOURCE = fileURLToPath(new URL('./clock-offset.c', import.meta.url))
const SLOWNESS = 30

export interface MovableClock {
  /** The environment of the servers. */
  readonly env: NodeJS.ProcessEnv
  /** Sets the difference between the clock of the servers and the machine's. */
  setBy(ms: number): Promise<void>
  /** Makes the clock run 30 times slower from now on. */
  slowDown(): Promise<void>
  stop(): Promise<void>
}

/** The reason why this machine cannot move the clock of a server, or undefined. */
export async function whyNoClock(): Promise<string | undefined> {
  if (process.platform !== 'linux') return `LD_PRELOAD needs Linux, this is ${process.platform}`
  try {
    await promisify(execFile)('cc', ['--version'])
  } catch {
    return 'there is no C compiler; install cc'
  }
  return undefined
}

/** A clock for all servers that are started with `env`. */
export async function movableClock(): Promise<MovableClock> {
  const folder = await mkdtemp(join(tmpdir(), 'stampede-clock-'))
  // PostgreSQL may run as another user.
  await chmod(folder, 0o755)
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
