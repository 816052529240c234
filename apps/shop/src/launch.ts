// Lifetime of the demo: settings, start, banner, signals and stop. main.ts of each app says what it
// runs. The demo is a fleet if there is a Redis, and one process else.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { banner } from './banner.ts'
import { findRedisServer } from './fleet/redis-server.ts'
import { runFleet } from './fleet/run-fleet.ts'
import { runProcess } from './fleet/run-process.ts'
import { closeAll, type OnStop, type Start } from './run.ts'
import { drain, listen } from './serve.ts'
import { readSettings, type Settings, StartError } from './settings.ts'
import { openShop } from './shop.ts'

/**
 * Runs the listener that `start` returns until SIGTERM or SIGINT. On a `StartError` it prints one
 * line and exits with 1.
 */
export async function launch(framework: string, start: Start): Promise<void> {
  // The fleet starts the same program for each of its processes.
  if (process.env.SHOP_PROCESS !== undefined && process.connected) {
    return runProcess(readSettings(process.env), start)
  }
  const closers: Array<() => unknown> = []
  const onStop: OnStop = (close) => closers.unshift(close)
  const stop = firstSignal()
  // Delayed, so that an early `StartError` prints only its own line.
  const startNotice = setTimeout(() => console.log(`Starting the shop on ${framework} ...`), 500)
  try {
    const given = readSettings(process.env)
    // Listens first, because a port that is taken is found at once. Early requests wait for the
    // shop.
    let open: (listener: RequestListener) => void = () => {}
    const opened = new Promise<RequestListener>((resolve) => (open = resolve))
    const early: RequestListener = (req, res) => void opened.then((listener) => listener(req, res))
    const server = await listen(createServer(early), given.port)
    const started = await Promise.race([startShop(given, start, onStop), stop])
    clearTimeout(startNotice)
    if (started === undefined) {
      server.close()
      await closeAll(closers, STOP_IN_START_MS)
      // A start that goes on would keep the process.
      process.exit()
    }
    const { settings, listener, processes, closeStreams } = started
    closers.unshift(() => {
      closeStreams?.()
      return drain(server)
    })
    open(listener)
    const { port } = server.address() as AddressInfo
    console.log(banner(framework, { ...settings, processes }, port))
  } catch (error) {
    clearTimeout(startNotice)
    console.error(startFailure(error))
    process.exitCode = 1
    await closeAll(closers)
    process.exit()
  }
  await stop
  await closeAll(closers)
}

/** No request is open yet. */
const STOP_IN_START_MS = 2_000

/** The terminal and npm both send a signal for one Ctrl-C. */
const SAME_SIGNAL_MS = 1_000

/** Resolves at the first SIGTERM or SIGINT. A later one ends the process at once. */
function firstSignal(): Promise<undefined> {
  return new Promise((resolve) => {
    let firstAt: number | undefined
    const onSignal = (): void => {
      if (firstAt === undefined) {
        firstAt = performance.now()
        console.log('\nStopping: open requests finish first. Press Ctrl-C again to end at once.')
        resolve(undefined)
      } else if (performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1)
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
  })
}

const NO_REDIS =
  'No redis-server on the PATH: one process, no cache compared with Stampede. For three processes: ' +
  'apt-get install redis-server, or brew install redis.'

interface Started {
  readonly settings: Settings
  readonly listener: RequestListener
  readonly processes: number
  closeStreams?(): void
}

async function startShop(settings: Settings, start: Start, onStop: OnStop): Promise<Started> {
  const { processes, redisUrl } = settings
  const program = redisUrl === undefined ? findRedisServer() : undefined
  if (processes > 1 && (redisUrl !== undefined || program !== undefined)) {
    return { processes, ...(await runFleet(settings, program, onStop)) }
  }
  if (processes > 1) console.log(NO_REDIS)
  const listener = await start({
    settings,
    onStop,
    openShop: () => openShop(settings),
    watch() {},
  })
  return { settings, listener, processes: 1 }
}

function startFailure(error: unknown): string {
  if (error instanceof StartError) return error.message
  return `The shop could not start: ${error instanceof Error ? error.message : String(error)}`
}
