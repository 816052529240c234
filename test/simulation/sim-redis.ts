// The simulated server: executes commands one after the other, publishes, and has everything happen to it that happens to a
// Redis. What it executed is remembered, so that a replica of any earlier moment can be made by executing it again.

import { drain } from './drain.ts'
import type { Kernel } from './kernel.ts'
import { ServerData } from './server-data.ts'
import { SCRIPTS } from './server-scripts.ts'

export interface Command {
  readonly name: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly raw: readonly unknown[]
}

/** The server's end of one connection. */
export interface Session {
  readonly process: string
  isOpen: boolean
  readonly channels: Set<string>
  push(channel: string, message: Buffer): void
  broken(): void
}

interface Executed {
  readonly at: number
  readonly micros: number
  readonly command: Command
}

/** Told of each command that was executed, and of each that is executed again on a replica. */
export type Witness = (command: Command, reply: unknown, isAgain: boolean) => void

export class SimRedis {
  mode: 'up' | 'frozen' | 'refusing' | 'down' = 'up'
  /** Added to the way of each command. */
  slowMs = 0
  /** The server's clock against the time of the simulation. */
  offsetMs = 0
  steppedBack = false
  data: ServerData
  commands = 0
  /** Sent to subscribers: one for each who hears it. */
  messages = 0
  witness: Witness = () => {}
  /** Before the data is another; `snapshotAt`: what was executed later is lost. */
  onLoss: (snapshotAt: number) => void = () => {}
  readonly #kernel: Kernel
  readonly #sessions = new Set<Session>()
  #log: Executed[] = []
  #backlog: Array<() => void> = []
  #replayed: number | undefined
  /** No two commands are executed in one microsecond: a fence of the clock's is of one record only. */
  #spentMicros = 0
  #lastAt = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.data = this.#fresh()
  }

  get micros(): number {
    const ms = 1_700_000_000_000 + this.#kernel.now + this.offsetMs
    return this.#replayed ?? Math.floor(ms * 1000) + this.#spentMicros
  }

  accept(session: Session): void {
    this.#sessions.add(session)
  }

  forget(session: Session): void {
    session.isOpen = false
    this.#sessions.delete(session)
  }

  /** A frozen server takes everything, and does it when it thaws. */
  receive(command: Command, reply: (value: unknown) => void): void {
    if (this.mode === 'down') return
    if (this.mode === 'frozen') this.#backlog.push(() => this.#execute(command, reply))
    else this.#execute(command, reply)
  }

  thaw(): void {
    this.mode = 'up'
    for (const each of this.#backlog.splice(0)) this.#kernel.after(0, each)
  }

  /** Every connection ends, and none can be made. */
  crash(): void {
    this.mode = 'down'
    this.#backlog = []
    for (const session of [...this.#sessions]) {
      this.forget(session)
      session.broken()
    }
  }

  restart(isEmpty: boolean): void {
    this.mode = 'up'
    if (!isEmpty) return
    this.onLoss(Number.NEGATIVE_INFINITY)
    this.#log = []
    this.data = this.#fresh()
  }

  /** A replica takes over that had got everything up to a moment ago. */
  failOver(lagMs: number): void {
    this.crash()
    this.mode = 'up'
    const snapshotAt = this.#kernel.now - lagMs
    this.onLoss(snapshotAt)
    const kept = this.#log.filter(({ at }) => at <= snapshotAt)
    this.#log = kept
    const replica = new ServerData(
      () => this.micros,
      () => 0,
    )
    for (const { command, micros } of kept) {
      this.#replayed = micros
      void this.#run(replica, command).then((reply) => this.witness(command, reply, true))
      drain()
    }
    this.#replayed = undefined
    replica.publish = this.#publish
    this.data = replica
  }

  step(byMs: number): void {
    this.offsetMs += byMs
    this.steppedBack ||= byMs < 0
  }

  #execute(command: Command, reply: (value: unknown) => void): void {
    this.commands += 1
    if (this.mode === 'refusing') {
      reply(refusal('OOM command not allowed'))
      return
    }
    this.#spentMicros = this.#kernel.now === this.#lastAt ? this.#spentMicros + 1 : 0
    this.#lastAt = this.#kernel.now
    const { at, micros } = { at: this.#kernel.now, micros: this.micros }
    this.#run(this.data, command).then(
      (value) => {
        if (isKept(command, value)) this.#log.push({ at, micros, command })
        this.witness(command, value, false)
        reply(value)
      },
      (error: Error) => reply(refusal(error.message)),
    )
  }

  async #run(data: ServerData, { name, keys, args, raw }: Command): Promise<unknown> {
    if (name === 'ping' || name === 'subscribe') return 'OK'
    if (name === 'TIME') return timeOf(data.micros())
    if (name === 'HMGET' && keys[0]?.endsWith('{purges}:meta')) return data.purges.last()
    if (name === 'HMGET') return data.fields.read(keys[0] ?? '', args)
    if (name === 'INFO') return 'maxmemory:0\r\nmaxmemory_policy:noeviction\r\n'
    const script = SCRIPTS[name]
    if (script === undefined) throw new Error(`ERR unknown script ${name}`)
    return script(data, keys, args, raw)
  }

  readonly #publish = (channel: string, message: Buffer): number => {
    let heard = 0
    for (const session of this.#sessions) {
      if (!session.channels.has(channel)) continue
      heard += 1
      session.push(channel, message)
    }
    this.messages += heard
    return heard
  }

  #fresh(): ServerData {
    return new ServerData(() => this.micros, this.#publish)
  }
}

/** Seconds, and microseconds of the next. */
function timeOf(micros: number): Buffer[] {
  return [Math.floor(micros / 1e6), micros % 1e6].map((part) => Buffer.from(String(part)))
}

/** Whether it may have changed anything. */
function isKept({ name, args }: Command, reply: unknown): boolean {
  if (SCRIPTS[name] === undefined) return false
  if (!Array.isArray(reply)) return true
  if (reply[0] === 'LATE') return false
  return !(name === 'lookup-or-lease' && reply[0] === 'FRESH' && reply[2] === '' && args[4] === '-')
}

function refusal(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}
