// The simulated server: executes commands in order, publishes messages, and suffers the faults of a
// real Redis. It records executed commands, so that a replica of any earlier moment can be made by
// executing them again.

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
  /** Connected to the former master, which is read-only now. */
  isStranded: boolean
  push(channel: string, message: Buffer): void
  broken(): void
}

/** The former master. */
interface Former {
  readonly data: ServerData
  readonly refused: Error
  /** Processes that reach no other server. */
  readonly stays: ReadonlySet<string>
}

interface Executed {
  readonly at: number
  readonly micros: number
  readonly steadyMs: number
  readonly command: Command
}

/**
 * Called for each executed command with its data, and again for each command that a replica
 * repeats.
 */
export type Witness = (command: Command, reply: unknown, data: ServerData, isAgain: boolean) => void

export class SimRedis {
  mode: 'up' | 'frozen' | 'refusing' | 'down' = 'up'
  /** A delay of each command. */
  slowMs = 0
  /** The server's clock minus the time of the simulation. */
  offsetMs = 0
  steppedBack = false
  data: ServerData
  commands = 0
  /** Messages to subscribers, one for each receiver. */
  messages = 0
  witness: Witness = () => {}
  /** Called before the data is replaced. Commands after `snapshotAt` are lost. */
  onLoss: (snapshotAt: number) => void = () => {}
  readonly #kernel: Kernel
  readonly #sessions = new Set<Session>()
  #log: Executed[] = []
  #backlog: Array<() => void> = []
  #replayed: Executed | undefined
  #former: Former | undefined
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

  /** See `ServerData`. */
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

  /** A frozen server accepts commands, and executes them when it thaws. */
  receive(command: Command, session: Session, reply: (value: unknown) => void): void {
    if (session.isStranded) {
      this.#executeOnFormer(command, reply)
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
    this.data.purges.run = `run ${this.#runs}`
  }

  /**
   * Another server becomes the master, while some processes stay connected to this one. This one is
   * read-only and receives nothing. `isCutOff`: it is partitioned together with them, so they find
   * no other server, and it lacks the replicas that it needs to write.
   */
  demote(processes: ReadonlySet<string>, isCutOff: boolean, lagMs: number): void {
    const { data } = this
    const refused = isCutOff
      ? refusal('NOREPLICAS Not enough good replicas to write.')
      : refusal("READONLY You can't write against a read only replica.")
    data.records.refusal = refused
    this.#former = { data, refused, stays: isCutOff ? processes : new Set() }
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
    const replica = new ServerData(
      () => this.micros,
      () => this.steadyMs,
      () => 0,
    )
    for (const executed of kept) {
      const { command } = executed
      this.#replayed = executed
      void this.#run(replica, command).then((reply) => this.witness(command, reply, replica, true))
      drain()
    }
    this.#replayed = undefined
    replica.publish = this.#publish
    this.#runs += 1
    replica.purges.run = `run ${this.#runs}`
    this.data = replica
  }

  step(byMs: number): void {
    this.offsetMs += byMs
    this.steppedBack ||= byMs < 0
    this.#forwardMs += Math.max(0, byMs)
  }

  /** Evicts the records of these groups, and keeps their variants. */
  evict(groups: readonly string[]): void {
    for (const group of groups) {
      this.#execute({ name: 'DEL', keys: [group], args: [], raw: [] }, () => {})
    }
  }

  #execute(command: Command, reply: (value: unknown) => void): void {
    this.commands += 1
    if (this.mode === 'refusing') {
      reply(refusal('OOM command not allowed'))
      return
    }
    this.#spentMicros = this.#kernel.now === this.#lastAt ? this.#spentMicros + 1 : 0
    this.#lastAt = this.#kernel.now
    const { micros, steadyMs } = this
    const at = this.#kernel.now
    const { data } = this
    this.#run(data, command).then(
      (value) => {
        if (isKept(command, value)) this.#log.push({ at, micros, steadyMs, command })
        this.witness(command, value, data, false)
        reply(value)
      },
      (error: Error) => reply(refusal(error.message)),
    )
  }

  /** Read commands are answered, also the script that writes only if necessary. */
  #executeOnFormer(command: Command, reply: (value: unknown) => void): void {
    const { data, refused } = this.#former as Former
    const { name } = command
    const mayWrite = name === 'PERSIST' || (name in SCRIPTS && name !== 'lookup-or-lease')
    if (mayWrite) {
      reply(refused)
      return
    }
    this.#run(data, command).then(reply, (error: Error) => reply(refusal(error.message)))
  }

  async #run(data: ServerData, { name, keys, args, raw }: Command): Promise<unknown> {
    if (name === 'ping' || name === 'subscribe') return 'OK'
    if (name === 'TIME') return timeOf(data.micros())
    if (name === 'HMGET' && keys[0]?.endsWith('{purges}:meta')) return data.purges.last()
    if (name === 'HMGET') return data.records.read(keys[0] ?? '', args)
    if (name === 'PERSIST') return 0
    if (name === 'DEL') return data.records.evict(keys[0] ?? '')
    if (name === 'INFO') return 'maxmemory:0\r\nmaxmemory_policy:noeviction\r\n'
    data.records.woken = []
    const script = SCRIPTS[name]
    if (script === undefined) throw new Error(`ERR unknown script ${name}`)
    return script(data, keys, args, raw)
  }

  readonly #publish = (channel: string, message: Buffer): number => {
    let heard = 0
    for (const session of this.#sessions) {
      if (session.isStranded || !session.channels.has(channel)) continue
      heard += 1
      session.push(channel, message)
    }
    this.messages += heard
    return heard
  }

  #fresh(): ServerData {
    return new ServerData(
      () => this.micros,
      () => this.steadyMs,
      this.#publish,
    )
  }
}

/** Seconds, and microseconds of the next second. */
function timeOf(micros: number): Buffer[] {
  return [Math.floor(micros / 1e6), micros % 1e6].map((part) => Buffer.from(String(part)))
}

/** Whether the command may have changed data. */
function isKept({ name, args }: Command, reply: unknown): boolean {
  if (name === 'DEL') return true
  if (SCRIPTS[name] === undefined) return false
  if (!Array.isArray(reply)) return true
  if (reply[0] === 'LATE') return false
  const isOutdated = (args[7] ?? '') !== ''
  return !(name === 'lookup-or-lease' && reply[0] === 'FRESH' && reply[2] === '' && !isOutdated)
}

function refusal(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}
