// A connection of one process to the simulated server, in the shape of ioredis. Replies and
// messages are delayed, lost, reordered and repeated, depending on the link of the process at that
// moment.

import { commandOf, type Link, type Net, scriptCommand } from './link.ts'
import type { ProcessTime } from './process-time.ts'
import type { Command, Session } from './sim-redis.ts'

type Listener = (...args: unknown[]) => void

interface Pending {
  readonly settle: (value: unknown) => void
}

/** The session at the server. */
type Arrival = (wayBackMs: () => number) => void

/** As packages/redis configures ioredis. */
const SILENT_MS = 1_000

export class SimConnection {
  status = 'connecting'
  /** The pending batch, if there is one. Writes between `cork` and `uncork` are sent together. */
  stream: { cork(): void; uncork(): void } | undefined
  onCommand: (command: Command) => void = () => {}
  readonly #net: Net
  readonly #time: ProcessTime
  readonly #link: Link
  readonly #name: string
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #pending = new Set<Pending>()
  readonly #kind: keyof Link['isCut']
  #session: Session | undefined
  #corked: Arrival[] | undefined
  #attempt = 0
  #heardAt = 0

  constructor(net: Net, time: ProcessTime, link: Link, name: string, kind: keyof Link['isCut']) {
    this.#net = net
    this.#time = time
    this.#link = link
    this.#name = name
    this.#kind = kind
    this.#connectSoon(net.random.next() * 5)
  }

  on(event: string, listener: Listener): void {
    const all = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, all.add(listener))
  }

  off(event: string, listener: Listener): void {
    this.#listeners.get(event)?.delete(listener)
  }

  callBuffer(name: string, ...args: unknown[]): Promise<unknown> {
    const isScript = name === 'EVALSHA' || name === 'EVAL'
    const keys = name === 'HMGET' ? 1 : 0
    const command = isScript ? scriptCommand(args) : commandOf(name, keys, args)
    for (const each of command.rows ?? [command]) this.onCommand(each)
    return this.#send(command)
  }

  async subscribe(...channels: string[]): Promise<unknown> {
    const session = this.#session
    const reply = await this.#send(commandOf('subscribe', 0, []), () => {
      for (const channel of channels) session?.channels.add(channel)
    })
    return reply
  }

  ping(): Promise<unknown> {
    return this.#send(commandOf('ping', 0, []))
  }

  /** With `reconnect` a new connection is opened. */
  disconnect(reconnect = false): void {
    this.#end(reconnect ? 'reconnecting' : 'end')
    if (reconnect) this.#connectSoon(this.#backoffMs())
  }

  /** The server's view of a process that died. */
  drop(): void {
    if (this.#session !== undefined) this.#net.server.forget(this.#session)
  }

  #send(command: Command, atServer?: () => void): Promise<unknown> {
    const session = this.#session
    if (this.status !== 'ready' || session === undefined) {
      return Promise.reject(new Error("Stream isn't writeable"))
    }
    const { server } = this.#net
    return new Promise((resolve, reject) => {
      const pending: Pending = {
        settle: (value) => {
          if (!this.#pending.delete(pending)) return
          timer.cancel()
          if (value instanceof Error) reject(value)
          else resolve(value)
          // As packages/redis configures ioredis: this error means the wrong server.
          if (value instanceof Error && value.message.startsWith('READONLY')) this.disconnect(true)
        },
      }
      this.#pending.add(pending)
      const timer = this.#time.setTimer(SILENT_MS, () => this.#onSilence(pending, session))
      const arrive: Arrival = (wayBackMs) => {
        if (this.#isCut || !session.isOpen) return
        server.receive(command, session, (value) => {
          atServer?.()
          this.#travel(session, () => pending.settle(value), { wayMs: wayBackMs })
        })
      }
      if (this.#corked === undefined) this.#write([arrive])
      else this.#corked.push(arrive)
    })
  }

  /**
   * Commands of one batch arrive in their order, possibly between commands of others. So do the
   * replies.
   */
  #write(all: readonly Arrival[]): void {
    const { kernel, random } = this.#net
    let back: number | undefined
    const wayBackMs = () => {
      back ??= this.#wayMs()
      return back
    }
    let inMs = this.#wayMs()
    for (const [place, arrive] of all.entries()) {
      if (place > 0 && random.chance(0.1)) inMs += random.next() * 20
      kernel.after(inMs, () => arrive(wayBackMs))
    }
  }

  #onSilence(pending: Pending, session: Session): void {
    pending.settle(new Error('Command timed out'))
    if (session !== this.#session || this.#time.now() - this.#heardAt < SILENT_MS) return
    this.disconnect(true)
  }

  /** From the server to the process. */
  #travel(
    session: Session,
    arrive: () => void,
    { mayRepeat = false, wayMs = () => this.#wayMs() } = {},
  ): void {
    const { kernel, random, figures } = this.#net
    if (this.#link.loss > 0 && random.chance(this.#link.loss)) {
      figures.count(mayRepeat ? 'message lost' : 'reply lost')
      return
    }
    const repeats = mayRepeat && this.#link.repeats > 0 && random.chance(this.#link.repeats)
    if (repeats) figures.count('message repeated')
    for (let copies = repeats ? 2 : 1; copies > 0; copies--) {
      kernel.after(wayMs(), () => {
        if (this.#isCut) return
        this.#time.receive(() => {
          if (session !== this.#session) return
          this.#heardAt = this.#time.now()
          arrive()
        })
      })
    }
  }

  get #isCut(): boolean {
    return this.#link.isCut[this.#kind]
  }

  /** Mostly short. Each message has its own delay, so a later one may arrive earlier. */
  #wayMs(): number {
    const { random, server } = this.#net
    const usual = 0.1 + random.next() * (random.chance(0.05) ? 20 : 1)
    return usual + random.next() * this.#link.delayMs + server.slowMs
  }

  #backoffMs(): number {
    const { random } = this.#net
    return Math.min(50 * 2 ** Math.min(this.#attempt, 10), 1_000) * (0.5 + random.next() / 2)
  }

  #connectSoon(inMs: number): void {
    this.#net.kernel.after(inMs, () => this.#time.receive(() => this.#connect()))
  }

  #connect(): void {
    if (this.status === 'end' || this.status === 'ready') return
    const { mode } = this.#net.server
    this.#attempt += 1
    if (mode === 'down' || mode === 'frozen' || this.#isCut) {
      const hangsMs = mode === 'down' ? 0 : SILENT_MS
      this.#emit('error', new Error('connect failed'))
      this.#connectSoon(hangsMs + this.#backoffMs())
      return
    }
    const session: Session = {
      process: this.#name,
      isOpen: true,
      channels: new Set(),
      isStranded: false,
      push: (channel, message) => {
        const name = Buffer.from(channel)
        this.#travel(session, () => this.#emit('messageBuffer', name, message), {
          mayRepeat: true,
        })
      },
      broken: () => {
        this.#net.kernel.after(this.#wayMs(), () =>
          this.#time.receive(() => {
            if (session === this.#session) this.disconnect(true)
          }),
        )
      },
    }
    this.#session = session
    this.#net.server.accept(session)
    this.#attempt = 0
    this.#heardAt = this.#time.now()
    this.status = 'ready'
    this.stream = this.#newStream()
    this.#emit('ready')
  }

  #newStream(): { cork(): void; uncork(): void } {
    const corked: Arrival[] = []
    return {
      cork: () => {
        this.#corked = corked
      },
      uncork: () => {
        if (this.#corked === corked) this.#corked = undefined
        if (corked.length > 0) this.#write(corked.splice(0))
      },
    }
  }

  #end(status: string): void {
    if (this.#session !== undefined) this.#net.server.forget(this.#session)
    this.#session = undefined
    this.stream = undefined
    this.#corked = undefined
    const wasReady = this.status === 'ready'
    this.status = status
    for (const pending of [...this.#pending]) pending.settle(new Error('Connection is closed'))
    if (wasReady) this.#emit('close')
  }

  #emit(event: string, ...args: unknown[]): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(...args)
  }
}
