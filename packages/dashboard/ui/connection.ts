// The connection to the server: events while the page is visible, and a new try after each failure.

import type { FleetView } from '../src/fleet-view.ts'

export type Status =
  | { readonly type: 'connecting' }
  | { readonly type: 'live' }
  | { readonly type: 'paused' }
  | { readonly type: 'waiting'; readonly retryAt: number; readonly why: string }

export interface ConnectionState {
  readonly view: FleetView | undefined
  readonly status: Status
}

const SHORTEST_MS = 1_000
const LONGEST_MS = 30_000
/** The server sends a view each second. After this time without one, the connection is dead. */
const SILENT_MS = 8_000

export class Connection {
  #state: ConnectionState = { view: undefined, status: { type: 'connecting' } }
  readonly #notify: (state: ConnectionState) => void
  #source: EventSource | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #isPaused = false

  constructor(notify: (state: ConnectionState) => void) {
    this.#notify = notify
    document.addEventListener('visibilitychange', () => this.#apply())
    addEventListener('online', () => this.retry())
    this.#apply()
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#apply()
  }

  retry(): void {
    this.#failures = 0
    this.#apply()
  }

  /** Opens the connection, or closes it if the reader does not look or has paused it. */
  #apply(): void {
    this.#close()
    if (this.#isPaused || document.hidden) this.#set({ type: 'paused' })
    else this.#open()
  }

  #open(): void {
    const source = new EventSource('api/live')
    this.#source = source
    this.#watch()
    source.addEventListener('fleet', (event) => {
      this.#failures = 0
      this.#state = { view: JSON.parse(event.data), status: { type: 'live' } }
      this.#notify(this.#state)
      this.#watch()
    })
    source.addEventListener('error', () => void this.#fail(source))
  }

  #watch(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#fail(this.#source), SILENT_MS)
  }

  async #fail(source: EventSource | undefined): Promise<void> {
    if (source === undefined || source !== this.#source) return
    this.#close()
    this.#failures += 1
    // The server ends each stream after some minutes, so the first try is at once and in silence.
    const isFirst = this.#failures === 1 && this.#state.status.type === 'live'
    const backoffMs = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** (this.#failures - 2))
    const delayMs = isFirst ? 100 : backoffMs * (0.8 + 0.4 * Math.random())
    this.#timer = setTimeout(() => this.#apply(), delayMs)
    if (isFirst) return
    const retryAt = Date.now() + delayMs
    this.#set({ type: 'waiting', retryAt, why: 'The server does not respond.' })
    const why = await reason()
    const { status } = this.#state
    if (status.type === 'waiting' && status.retryAt === retryAt) this.#set({ ...status, why })
  }

  #close(): void {
    clearTimeout(this.#timer)
    this.#source?.close()
    this.#source = undefined
  }

  #set(status: Status): void {
    this.#state = { ...this.#state, status }
    this.#notify(this.#state)
  }
}

/** Why the stream failed. An EventSource does not know the status of the response. */
async function reason(): Promise<string> {
  try {
    const { ok, status } = await fetch('api/fleet', { signal: AbortSignal.timeout(5_000) })
    if (ok) return 'The stream was cut off.'
    return status === 503
      ? 'The dashboard is closed, or has too many viewers.'
      : `The server refuses this page (HTTP ${status}). You may have to sign in again.`
  } catch {
    return 'The server does not respond.'
  }
}
