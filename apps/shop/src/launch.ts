// The life of a demo process: settings, start, banner, signals, stop. The apps' main.ts say what runs in it.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { banner } from './banner.ts'
import { drain, listen } from './serve.ts'
import { readSettings, type Settings, StartError } from './settings.ts'

/** When all is closed the process ends by itself; after this it ends whatever is still open. */
const LONGEST_STOP_MS = 10_000

/** Registers what to close at the end; the last one registered is closed first. */
export type OnStop = (close: () => unknown) => void

type Start = (settings: Settings, onStop: OnStop) => Promise<RequestListener>

/** Runs the listener that `start` makes until SIGTERM or SIGINT. A `StartError` ends with one line and code 1. */
export async function launch(framework: string, start: Start): Promise<void> {
  const closers: Array<() => unknown> = []
  let stopped: () => void = () => {}
  const stop = new Promise<void>((resolve) => (stopped = resolve))
  // npm passes on the signal that the terminal sent to everybody, so it often comes twice: once is enough.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stopped)

  // Said late, so that what refuses to start at once says one line and no more.
  const patience = setTimeout(() => console.log(`Starting the shop on ${framework} ...`), 500)
  try {
    const settings = readSettings(process.env)
    // The port first: it costs nothing to find out that it is taken. Early requests wait for the shop.
    let open: (listener: RequestListener) => void = () => {}
    const opened = new Promise<RequestListener>((resolve) => (open = resolve))
    const early: RequestListener = (req, res) => void opened.then((listener) => listener(req, res))
    const server = await listen(createServer(early), settings.port)
    const listener = await start(settings, (close) => closers.unshift(close))
    closers.unshift(() => drain(server))
    open(listener)
    console.log(banner(framework, settings, (server.address() as AddressInfo).port))
  } catch (error) {
    clearTimeout(patience)
    console.error(startFailure(error))
    process.exitCode = 1
    await closeAll(closers)
    process.exit()
  }
  await stop
  console.log('\nStopping: finishing what was asked, then closing.')
  await closeAll(closers)
}

function startFailure(error: unknown): string {
  if (error instanceof StartError) return error.message
  return `The shop could not start: ${error instanceof Error ? error.message : String(error)}`
}

/** One after the other; one that fails does not keep the next from closing. */
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
