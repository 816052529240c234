// Server-sent events: the view of the fleet, sent to all viewers of this process once a second.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FleetReader } from './fleet-reader.ts'
import type { Reporter } from './reporter.ts'
import { beginEvents } from './respond.ts'

/** Time between two events. The reports of other processes are read more rarely. */
const EVERY_MS = 1_000
/** A stream ends after this time, so that the browser asks for authorization again. */
const LONGEST_MS = 300_000
/** A viewer that reads nothing for this time is cut off. */
const STUCK_MS = 30_000
const MOST_VIEWERS = 100

interface Viewer {
  readonly res: ServerResponse
  readonly since: number
  /** The last time at which all bytes were taken. */
  drainedAt: number
  /** Whether the server of the request has stopped to listen, because the app shuts down. */
  isServerClosing(): boolean
}

export class Live {
  readonly #reader: FleetReader
  readonly #reporter: Reporter
  readonly #viewers = new Set<Viewer>()
  #interval: NodeJS.Timeout | undefined

  constructor(reader: FleetReader, reporter: Reporter) {
    this.#reader = reader
    this.#reporter = reporter
  }

  get isFull(): boolean {
    return this.#viewers.size >= MOST_VIEWERS
  }

  /** Sends the current view at once, and then one each second until the client leaves. */
  async add(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!beginEvents(res)) return
    const now = performance.now()
    const viewer: Viewer = {
      res,
      since: now,
      drainedAt: now,
      isServerClosing: () => isClosing(req),
    }
    this.#viewers.add(viewer)
    res.once('close', () => this.#remove(viewer))
    this.#interval ??= setInterval(() => this.#tick(), EVERY_MS).unref()
    const view = await this.#reader.read()
    if (this.#viewers.has(viewer)) send(viewer, eventOf(view))
  }

  close(): void {
    for (const viewer of [...this.#viewers]) this.#end(viewer)
  }

  #tick(): void {
    const now = performance.now()
    const isClosed = this.#reporter.isClosed
    for (const viewer of [...this.#viewers]) {
      if (isClosed || viewer.isServerClosing() || now - viewer.since > LONGEST_MS) this.#end(viewer)
      else if (now - viewer.drainedAt > STUCK_MS) viewer.res.destroy()
    }
    if (this.#viewers.size === 0) return
    const event = eventOf(this.#reader.glance())
    for (const viewer of this.#viewers) send(viewer, event)
  }

  #end(viewer: Viewer): void {
    this.#remove(viewer)
    viewer.res.end()
  }

  #remove(viewer: Viewer): void {
    this.#viewers.delete(viewer)
    if (this.#viewers.size > 0) return
    clearInterval(this.#interval)
    this.#interval = undefined
  }
}

const eventOf = (view: object): string => `event: fleet\ndata: ${JSON.stringify(view)}\n\n`

/** A viewer that has not taken the last event misses this one. The next one has newer facts. */
function send(viewer: Viewer, event: string): void {
  const { res } = viewer
  if (res.writableNeedDrain) return
  viewer.drainedAt = performance.now()
  res.write(event)
}

/** `server.close()` waits for open responses, so a stream has to notice it by itself. */
function isClosing({ socket }: IncomingMessage): boolean {
  const { server } = socket as { readonly server?: { readonly listening?: boolean } }
  return server?.listening === false
}
