// Commands in a Cluster by node-redis: one connection per master in use, and the slots of each. The
// cluster client of node-redis sets no time limits, and does not report the loss of a node.

import { EventEmitter } from 'node:events'
import { retryDelayMs, withBudget } from '../connection/budget.ts'
import { slotOf } from '../connection/cluster.ts'
import type { ClusterConnection, ClusterNode, Connection } from '../connection/connection.ts'
import { NotSent } from '../connection/refusal.ts'

const SLOTS = 16_384
const MAX_REDIRECTIONS = 16
const RETRY_MS = 50
/** The subscriber gets no redirections, so it notices only by this refresh that a node left. */
const REFRESH_MS = 10_000
/** A node that has not replied by then may be frozen, so the next node is asked as well. */
const NEXT_NODE_MS = 100

type Arguments = Array<string | number | Buffer>

export interface NodeRedisClusterOptions {
  /** Opens a connection that does not reconnect. */
  open(host: string, port: number): Connection
  /** Names of nodes that may know the slots. */
  readonly seeds: readonly string[]
  readonly connectMs: number
}

interface NodeConnection {
  readonly connection: Connection
  /** Rejects if the connection cannot be opened. */
  readonly opened: Promise<void>
}

/** Emits the events of an ioredis `Cluster`. */
export class NodeRedisCluster implements ClusterConnection {
  slots: Array<readonly string[] | undefined> = new Array(SLOTS)
  readonly #events = new EventEmitter().setMaxListeners(0)
  readonly #options: NodeRedisClusterOptions
  /** Open connections and those that are being opened, by the names of their nodes. */
  readonly #connections = new Map<string, NodeConnection>()
  #masters: ReadonlySet<string> = new Set()
  #members: ReadonlySet<string> = new Set()
  #status: 'connecting' | 'ready' | 'end' = 'connecting'
  #attempt = 0
  #timer: NodeJS.Timeout | undefined
  /** Whether `#timer` is the short one of `#refreshSoon`. */
  #isSoon = false
  #isRefreshing = false

  constructor(options: NodeRedisClusterOptions) {
    this.#options = options
    // The first listeners are added in this turn.
    setImmediate(() => void this.#refresh())
  }

  get status(): string {
    return this.#status
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this.#events.on(event, listener as (...args: unknown[]) => void)
  }

  nodes(role: 'all' | 'master'): ClusterNode[] {
    return [...(role === 'all' ? this.#members : this.#masters)].map((name) => this.#node(name))
  }

  async callBuffer(command: string, ...args: Arguments): Promise<unknown> {
    const key = keyOf(command, args)
    if (key === undefined) return this.#send(this.#anyMaster(), command, args)
    const slot = slotOf(key)
    let asked: string | undefined
    for (let redirections = 0; ; redirections++) {
      const name = asked ?? this.slots[slot]?.[0]
      if (name === undefined) {
        this.#refreshSoon()
        throw new NotSent(new Error(`no node has slot ${slot}`))
      }
      try {
        return await this.#send(name, command, args, asked !== undefined)
      } catch (error) {
        asked = undefined
        if (redirections === MAX_REDIRECTIONS) throw error
        const [kind, , target = ''] = (error as Error).message.split(' ')
        if (kind === 'MOVED') {
          this.slots[slot] = [addressed(target, name)]
          this.#refreshSoon()
        } else if (kind === 'ASK') {
          asked = addressed(target, name)
        } else if (kind === 'TRYAGAIN' || kind === 'CLUSTERDOWN') {
          // A node that left the cluster replies with CLUSTERDOWN to commands on its former slots.
          if (kind === 'CLUSTERDOWN') this.#refreshSoon()
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
        } else {
          throw error
        }
      }
    }
  }

  subscribe(): Promise<unknown> {
    return Promise.reject(new Error('the connections for commands do not subscribe'))
  }

  ping(): Promise<unknown> {
    return this.#send(this.#anyMaster(), 'PING', [])
  }

  disconnect(): void {
    this.#status = 'end'
    clearTimeout(this.#timer)
    for (const { connection } of this.#connections.values()) connection.disconnect()
    this.#connections.clear()
  }

  /** With `asking`, the node runs the command although it only imports the slot. */
  async #send(name: string, command: string, args: Arguments, asking = false): Promise<unknown> {
    const { connection, opened } = this.#connectionTo(name)
    if (connection.status !== 'ready') await opened
    // Both commands are queued in one turn, so no other command comes between them.
    if (asking) connection.callBuffer('ASKING').catch(() => {})
    return connection.callBuffer(command, ...args)
  }

  #connectionTo(name: string): NodeConnection {
    const known = this.#connections.get(name)
    if (known !== undefined) return known
    if (this.#status === 'end') throw new NotSent()
    const connection = this.#options.open(...hostAndPort(name))
    let last: Error | undefined
    let wasReady = false
    connection.on('error', (error: Error) => {
      last = error
      this.#events.emit('node error', error)
    })
    const opened = new Promise<void>((resolve, reject) => {
      connection.on('ready', () => {
        wasReady = true
        resolve()
        this.#events.emit('+node', this.#node(name))
      })
      connection.on('end', () => {
        reject(new NotSent(last))
        if (this.#connections.get(name)?.connection !== connection) return
        this.#connections.delete(name)
        if (wasReady) this.#events.emit('-node', this.#node(name))
        this.#refreshSoon()
      })
    })
    opened.catch(() => {})
    const added = { connection, opened }
    this.#connections.set(name, added)
    return added
  }

  #node(name: string): ClusterNode {
    const [host, port] = hostAndPort(name)
    return {
      options: { host, port },
      duplicate: () => this.#options.open(host, port),
      callBuffer: (command, ...args) => this.#send(name, command, args),
    }
  }

  #anyMaster(): string {
    const [name] = shuffled(this.#masters)
    if (name === undefined) throw new NotSent()
    return name
  }

  /** Never delays a refresh that is due. Otherwise frequent redirections would prevent all. */
  #refreshSoon(): void {
    if (this.#isSoon || this.#status === 'end') return
    this.#isSoon = true
    if (!this.#isRefreshing) this.#refreshAfter(RETRY_MS)
  }

  #refreshAfter(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#refresh(), ms)
    if (this.#status === 'ready') this.#timer.unref()
  }

  async #refresh(): Promise<void> {
    this.#isRefreshing = true
    this.#isSoon = false
    const result = await this.#askForSlots().catch((error: Error) => error)
    this.#isRefreshing = false
    if (this.#status === 'end') return
    if (!(result instanceof Error)) {
      this.#attempt = 0
      this.#apply(result)
      this.#refreshAfter(this.#isSoon ? RETRY_MS : REFRESH_MS)
      return
    }
    this.#attempt += 1
    this.#refreshAfter(retryDelayMs(this.#attempt))
    this.#events.emit('error', result)
    if (this.#status !== 'ready') return
    this.#status = 'connecting'
    this.#events.emit('close')
  }

  /** Asks the nodes in random order, and takes the first reply. */
  async #askForSlots(): Promise<SlotRange[]> {
    const { seeds, connectMs } = this.#options
    const names = new Set([...shuffled(this.#masters), ...shuffled(seeds)])
    const asked: Array<Promise<SlotRange[]>> = []
    for (const name of names) {
      const reply = withBudget(connectMs, this.#send(name, 'CLUSTER', ['SLOTS']))
      const slots = reply.then((raw) => readSlots(raw, hostAndPort(name)[0]))
      asked.push(slots)
      const isDone = await Promise.race([
        slots.then(
          () => true,
          () => false,
        ),
        new Promise<boolean>((resolve) => setTimeout(resolve, NEXT_NODE_MS, false)),
      ])
      if (isDone) return slots
    }
    return Promise.any(asked).catch((error: AggregateError) => {
      throw error.errors.at(-1) ?? new Error('no node of the cluster is known')
    })
  }

  #apply(ranges: readonly SlotRange[]): void {
    const slots: Array<readonly string[] | undefined> = new Array(SLOTS)
    const [masters, members] = [new Set<string>(), new Set<string>()]
    for (const { first, last, names } of ranges) {
      slots.fill(names, first, last + 1)
      masters.add(names[0] as string)
      for (const name of names) members.add(name)
    }
    const before = this.#members
    this.slots = slots
    this.#masters = masters
    this.#members = members
    if (this.#status !== 'ready') {
      this.#status = 'ready'
      this.#events.emit('ready')
    }
    // A connection to a seed under another name is no longer needed. Other connections are to nodes
    // that only import slots. CLUSTER SLOTS does not name these nodes.
    const seeds = this.#options.seeds.filter((name) => this.#connections.has(name))
    for (const name of new Set([...before, ...seeds])) if (!members.has(name)) this.#forget(name)
  }

  #forget(name: string): void {
    const forgotten = this.#connections.get(name)
    this.#connections.delete(name)
    forgotten?.connection.disconnect()
    this.#events.emit('-node', this.#node(name))
  }
}

/** Undefined for a command without a key. */
function keyOf(command: string, args: Arguments): string | undefined {
  if (command === 'INFO' || command === 'TIME') return undefined
  return String(command === 'EVAL' || command === 'EVALSHA' ? args[2] : args[0])
}

/** The target of a redirection. Without a host, it has the host of the node that replied. */
function addressed(target: string, name: string): string {
  return /^:\d+$/.test(target) ? `${hostAndPort(name)[0]}${target}` : target
}

function hostAndPort(name: string): [host: string, port: number] {
  const colon = name.lastIndexOf(':')
  return [name.slice(0, colon), Number(name.slice(colon + 1))]
}

function shuffled(names: Iterable<string>): string[] {
  return [...names]
    .map((name) => [Math.random(), name] as const)
    .sort(([a], [b]) => a - b)
    .map(([, name]) => name)
}

// Parses the reply to CLUSTER SLOTS. The server is not trusted, so each part is checked.

interface SlotRange {
  readonly first: number
  readonly last: number
  /** `host:port` of the master, and then of the replicas. Never empty. */
  readonly names: readonly string[]
}

/** `host` replaces a host that the node does not know. Throws if no range is well-formed. */
function readSlots(reply: unknown, host: string): SlotRange[] {
  const ranges = list(reply).flatMap((each) => {
    const [first, last, ...nodes] = list(each)
    if (!isSlot(first) || !isSlot(last)) return []
    const names = nodes.flatMap((node) => nameOf(node, host) ?? [])
    return names.length === 0 ? [] : [{ first, last, names }]
  })
  if (ranges.length === 0) throw new Error('CLUSTER SLOTS names no node')
  return ranges
}

function nameOf(node: unknown, host: string): string | undefined {
  const [own, port] = list(node)
  const known = own === null || own === undefined ? '' : String(own)
  const isPort = Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536
  return isPort ? `${known === '' || known === '?' ? host : known}:${port}` : undefined
}

function isSlot(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < SLOTS
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
