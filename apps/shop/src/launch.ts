// Lifetime of a demo process: settings, start, banner, signals and stop. main.ts of each app says
// what it runs.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { banner } from './banner.ts'
import { drain, listen } from './serve.ts'
import { readSettings, type Settings, StartError } from './settings.ts'

/** The process ends by itself when everything is closed. After this time it is ended. */
const LONGEST_STOP_MS = 10_000

/** Registers a function to call at the end. The last one registered is called first. */
export type OnStop = (close: () => unknown) => void

type Start = (settings: Settings, onStop: OnStop) => Promise<RequestListener>

/**
 * Runs the listener that `start` returns until SIGTERM or SIGINT. On a `StartError` it prints one
 * line and exits with 1.
 */
export async function launch(framework: string, start: Start): Promise<void> {
  const closers: Array<() => unknown> = []
  let stopped: () => void = () => {}
  const stop = new Promise<void>((resolve) => (stopped = resolve))
  // The signal often comes twice, from the terminal and from npm. The second one changes nothing.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stopped)

  // Delayed, so that an early `StartError` prints only its own line.
  const startNotice = setTimeout(() => console.log(`Starting the shop on ${framework} ...`), 500)
  try {
    const settings = readSettings(process.env)
    // Listens first, because a port that is taken is found at once. Early requests wait for the
    // shop.
    let open: (listener: RequestListener) => void = () => {}
    const opened = new Promise<RequestListener>((resolve) => (open = resolve))
    const early: RequestListener = (req, res) => void opened.then((listener) => listener(req, res))
    const server = await listen(createServer(early), settings.port)
    const listener = await start(settings, (close) => closers.unshift(close))
    closers.unshift(() => drain(server))
    open(listener)
    console.log(banner(framework, settings, (server.address() as AddressInfo).port))
  } catch (error) {
    clearTimeout(startNotice)
    console.error(startFailure(error))
    process.exitCode = 1
    await closeAll(closers)
    process.exit()
  }
  await stop
  console.log('\nStopping: open requests finish first.')
  await closeAll(closers)
}

function startFailure(error: unknown): string {
  if (error instanceof StartError) return error.message
  return `The shop could not start: ${error instanceof Error ? error.message : String(error)}`
}

/** Closes one after the other. If one fails, the others are still closed. */
async function closeAll(closers: ReadonlyArray<() => unknown>): Promise<void> {
  setTimeout(() => process.exit(process.exitCode ?? 0), LONGEST_STOP_MS).unref()
  for (const close of closers) {
    try {
      await close()
    } catch (error) {
      console.error(`While stopping: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}
