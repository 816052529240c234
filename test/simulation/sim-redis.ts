// The simulated server: executes commands in order, publishes messages, and suffers the faults of a
// real Redis. Scripts are those of lua/, run by the script engine. It records all writes, so that a
// replica of any earlier moment can be made by repeating them.

import type { Kernel } from './kernel.ts'
import { CommandError, Keyspace, type Reply, type Value, type Write } from './keyspace.ts'
import { SOURCES } from './link.ts'
import { ScriptEngine } from './script-engine.ts'

export interface Command {
  readonly name: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly raw: readonly unknown[]
  /** A command with a script for many keys: what it does for each key. */
  readonly rows?: readonly Command[]
}

/** The server's end of one connection. */
export interface Session {
  readonly process: string
  isOpen: boolean
  readonly channels: Set<string>
  /** Connected to the former master, which is read-only now. */
  isStranded: boolean
  push(channel: string, message: Buffer): void
  broken(): void
}

/** The former master. */
interface Former {
  readonly data: Keyspace
  /** Processes that reach no other server. */
  readonly stays: ReadonlySet<string>
}

interface Executed {
  readonly at: number
  readonly micros: number
  readonly steadyMs: number
  readonly seen: Seen
  readonly writes: readonly Write[]
}

export interface Message {
  readonly channel: string
  readonly text: string
}

/** An executed command. */
export interface Seen {
  readonly command: Command
  readonly reply: Reply | Error
  /** The value of its first key before. */
  readonly found: Value | undefined
  readonly published: readonly Message[]
}

/**
 * Called for each executed command with its data, and again for each whose writes a replica
 * repeats.
 */
export type Witness = (seen: Seen, data: Keyspace, isAgain: boolean) => void

/** It has no state between two runs, so all servers share it. */
const engine = new ScriptEngine()

export class SimRedis {
  mode: 'up' | 'frozen' | 'refusing' | 'down' = 'up'
  /** A delay of each command. */
  slowMs = 0
  /** The server's clock minus the time of the simulation. */
  offsetMs = 0
  steppedBack = false
  data: Keyspace
  commands = 0
  /** Messages to subscribers, one for each receiver. */
  messages = 0
  witness: Witness = () => {}
  /** A script failed by itself, or uses a command that the server lacks. */
  onBroken: (error: unknown) => void = (error) => {
    throw error
  }
  /** Called before the data is replaced. Commands after `snapshotAt` are lost. */
  onLoss: (snapshotAt: number) => void = () => {}
  readonly #kernel: Kernel
  readonly #sessions = new Set<Session>()
  #log: Executed[] = []
  #backlog: Array<() => void> = []
  #replayed: Executed | undefined
  #former: Former | undefined
  #published: Message[] = []
  #runs = 0
  /** The sum of all steps forward of the server's clock. */
  #forwardMs = 0
  /**
   * No two commands run in the same microsecond, so that a fence made from the clock belongs to one
   * record.
   */
  #spentMicros = 0
  #lastAt = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.data = this.#fresh()
  }

  get micros(): number {
    const ms = 1_700_000_000_000 + this.#kernel.now + this.offsetMs
    return this.#replayed?.micros ?? Math.floor(ms * 1000) + this.#spentMicros
  }

  /** The server's time without its steps back, in ms. */
  get steadyMs(): number {
    return this.#replayed?.steadyMs ?? Math.floor(this.#kernel.now + this.#forwardMs)
  }

  get isDemoted(): boolean {
    return this.#former !== undefined
  }

  accept(session: Session): void {
    session.isStranded = this.#former?.stays.has(session.process) ?? false
    this.#sessions.add(session)
  }

  forget(session: Session): void {
    session.isOpen = false
    this.#sessions.delete(session)
  }

  /** As lua/run-each-1.lua: the runs of one command, whose errors do not end the others. */
  #receiveRows(rows: readonly Command[], session: Session, reply: (value: unknown) => void): void {
    const replies: unknown[] = []
    const errors: unknown[] = []
    let readOnly: Error | undefined
    for (const [i, row] of rows.entries()) {
      this.receive(row, session, (value) => {
        replies[i] = value instanceof Error ? 0 : value
        if (!(value instanceof Error)) return
        if (value.message.includes('READONLY')) readOnly = value
        errors.push(i + 1, Buffer.from(value.message))
      })
    }
    const end = () => reply(readOnly ?? [replies, errors])
    if (this.mode === 'frozen' && !session.isStranded) this.#backlog.push(end)
    else if (session.isStranded || this.mode !== 'down') end()
  }

  /** A frozen server accepts commands, and executes them when it thaws. */
  receive(command: Command, session: Session, reply: (value: unknown) => void): void {
    if (command.rows !== undefined) {
      this.#receiveRows(command.rows, session, reply)
      return
    }
    if (session.isStranded) {
      reply(onWire(this.#run((this.#former as Former).data, command)))
      return
    }
    if (this.mode === 'down') return
    if (this.mode === 'frozen') this.#backlog.push(() => this.#execute(command, reply))
    else this.#execute(command, reply)
  }

  thaw(): void {
    this.mode = 'up'
    for (const each of this.#backlog.splice(0)) this.#kernel.after(0, each)
  }

  /** Every connection ends, and no new one is accepted. */
  crash(): void {
    this.mode = 'down'
    this.#backlog = []
    for (const session of [...this.#sessions]) if (!session.isStranded) this.#hangUp(session)
  }

  #hangUp(session: Session): void {
    this.forget(session)
    session.broken()
  }

  restart(isEmpty: boolean): void {
    this.mode = 'up'
    this.#runs += 1
    if (isEmpty) {
      this.onLoss(Number.NEGATIVE_INFINITY)
      this.#log = []
      this.data = this.#fresh()
    }
    this.data.runId = `run${this.#runs}`
  }

  /**
   * Another server becomes the master, while some processes stay connected to this one. This one is
   * read-only and receives nothing. `isCutOff`: it is partitioned together with them, so they find
   * no other server, and it lacks the replicas that it needs to write.
   */
  demote(processes: ReadonlySet<string>, isCutOff: boolean, lagMs: number): void {
    const { data } = this
    data.refusal = isCutOff
      ? 'NOREPLICAS Not enough good replicas to write.'
      : "READONLY You can't write against a read only replica."
    data.publish = () => 0
    this.#former = { data, stays: isCutOff ? processes : new Set() }
    for (const session of this.#sessions) session.isStranded = processes.has(session.process)
    this.failOver(lagMs)
  }

  /** Its clients find the new master. */
  endDemotion(): void {
    this.#former = undefined
    for (const session of [...this.#sessions]) if (session.isStranded) this.#hangUp(session)
  }

  /** A replica takes over that has all commands up to an earlier moment. */
  failOver(lagMs: number): void {
    this.crash()
    this.mode = 'up'
    const snapshotAt = this.#kernel.now - lagMs
    this.onLoss(snapshotAt)
    const kept = this.#log.filter(({ at }) => at <= snapshotAt)
    this.#log = kept
    const replica = this.#fresh()
    for (const executed of kept) {
      this.#replayed = executed
      for (const [name = '', ...args] of executed.writes) replica.call(name, args)
      if (!(executed.seen.reply instanceof Error)) this.witness(executed.seen, replica, true)
    }
    this.#replayed = undefined
    replica.writes = []
    this.#runs += 1
    replica.runId = `run${this.#runs}`
    this.data = replica
  }

  step(byMs: number): void {
    this.offsetMs += byMs
    this.steppedBack ||= byMs < 0
    this.#forwardMs += Math.max(0, byMs)
  }

  /** As a command of an operator, or of the server itself. */
  perform(
    name: string,
    keys: readonly string[],
    args: readonly string[] = [],
    then: (reply: unknown) => void = () => {},
  ): void {
    this.#execute({ name, keys, args, raw: args }, then)
  }

  #execute(command: Command, reply: (value: unknown) => void): void {
    this.commands += 1
    if (this.mode === 'refusing') {
      reply(refusal('OOM command not allowed'))
      return
    }
    this.#spentMicros = this.#kernel.now === this.#lastAt ? this.#spentMicros + 1 : 0
    this.#lastAt = this.#kernel.now
    const { data, micros, steadyMs } = this
    const found = data.get(command.keys[0] ?? '')
    const result = this.#run(data, command)
    const { writes } = data
    data.writes = []
    const seen = { command, reply: result, found, published: this.#published }
    if (writes.length > 0) this.#log.push({ at: this.#kernel.now, micros, steadyMs, seen, writes })
    if (!(result instanceof Error)) this.witness(seen, data, false)
    reply(onWire(result))
  }

  /** An error reply does not undo the writes before it. */
  #run(data: Keyspace, command: Command): Reply | Error {
    this.#published = []
    try {
      return replyTo(data, command)
    } catch (error) {
      if (!(error instanceof CommandError)) this.onBroken(error)
      return refusal(error instanceof CommandError ? error.message : 'ERR the script failed')
    }
  }

  readonly #publish = (channel: string, text: string): number => {
    this.#published.push({ channel, text })
    const message = Buffer.from(text, 'latin1')
    let heard = 0
    for (const session of this.#sessions) {
      if (session.isStranded || !session.channels.has(channel)) continue
      heard += 1
      session.push(channel, message)
    }
    this.messages += heard
    return heard
  }

  #fresh(): Keyspace {
    return new Keyspace(() => this.micros, this.#publish)
  }
}

function replyTo(data: Keyspace, { name, keys, raw }: Command): Reply {
  if (name === 'ping' || name === 'subscribe') return 'OK'
  const [bytes, args] = [keys.map(asBytes), raw.map(asBytes)]
  const source = SOURCES.get(name)
  if (source === undefined) return data.call(name, [...bytes, ...args])
  return engine.run(source, bytes, args, (command, given) => data.call(command, given))
}

/** A string with one character a byte. */
function asBytes(value: unknown): string {
  const bytes = value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(String(value))
  return bytes.toString('latin1')
}

function onWire(reply: Reply | Error): unknown {
  if (reply instanceof Error) return reply
  if (typeof reply === 'string') return Buffer.from(reply, 'latin1')
  if (typeof reply === 'number' || reply === null) return reply
  return 'ok' in reply ? Buffer.from(reply.ok) : reply.map(onWire)
}

function refusal(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}
