// The subscription in a cluster: one plain connection to one of its nodes, and to another one when that goes. The
// subscriber that ioredis has for a cluster tells nobody that it was away, and its PING goes to any node but its own.

import { EventEmitter } from 'node:events'
import type {
  ClusterConnection,
  ClusterNode,
  Connection,
  SubscriberConnection,
} from './connection.ts'
import { retryDelayMs } from './retry-delay.ts'

/** Told of as a plain ioredis connection tells: `ready`, `close`, `error`, `messageBuffer`. */
export class ClusterSubscriber implements SubscriberConnection {
  readonly #events = new EventEmitter()
  readonly #cluster: ClusterConnection
  readonly #options: object
  #connection: Connection | undefined
  /** Name of the node it is, or was last, connected to. */
  #at = ''
  #attempt = 0
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(cluster: ClusterConnection, options: object) {
    this.#cluster = cluster
    // A connection that is lost goes to another node, not to the same again.
    this.#options = { ...options, retryStrategy: null }
    cluster.on('ready', () => this.#connect())
    cluster.on('-node', (node: ClusterNode) => {
      if (nameOf(node) === this.#at) this.disconnect(true)
    })
  }

  get status(): string {
    return this.#connection?.status ?? 'connecting'
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this.#events.on(event, listener as (...args: unknown[]) => void)
  }

  async subscribe(...channels: string[]): Promise<unknown> {
    return this.#need().subscribe(...channels)
  }

  /** A node that has left the cluster still answers, and hears nothing. */
  async ping(): Promise<unknown> {
    const members = this.#cluster.nodes('all').map(nameOf)
    if (this.#cluster.status === 'ready' && !members.includes(this.#at)) {
      throw new Error(`${this.#at} is no node of the cluster any more`)
    }
    return this.#need().ping()
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#closed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#leave()
  }

  #connect(): void {
    if (this.#closed || this.#connection !== undefined || this.#timer !== undefined) return
    const node = this.#choose()
    if (node === undefined) {
      this.#connectLater()
      return
    }
    this.#at = nameOf(node)
    const connection = node.duplicate(this.#options)
    this.#connection = connection
    const pass = (event: string) =>
      connection.on(event, (...args: unknown[]) => {
        if (this.#connection === connection) this.#events.emit(event, ...args)
      })
    connection.on('ready', () => {
      this.#attempt = 0
    })
    for (const event of ['ready', 'error', 'messageBuffer']) pass(event)
    connection.on('end', () => {
      if (this.#connection === connection) this.#leave()
    })
  }

  /** Not waited for: a frozen node takes its time to close. */
  #leave(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.disconnect()
    if (connection !== undefined) this.#events.emit('close')
    this.#connectLater()
  }

  #connectLater(): void {
    if (this.#closed || this.#timer !== undefined) return
    this.#attempt += 1
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#connect()
    }, retryDelayMs(this.#attempt))
  }

  /** Any but the last one, if there is another. */
  #choose(): ClusterNode | undefined {
    if (this.#cluster.status !== 'ready') return undefined
    const nodes = this.#cluster.nodes('master')
    const others = nodes.filter((node) => nameOf(node) !== this.#at)
    const among = others.length > 0 ? others : nodes
    return among[Math.floor(Math.random() * among.length)]
  }

  #need(): Connection {
    if (this.#connection === undefined) throw new Error('no node of the cluster is listened to')
    return this.#connection
  }
}

function nameOf({ options }: ClusterNode): string {
  return `${options.host}:${options.port}`
}
