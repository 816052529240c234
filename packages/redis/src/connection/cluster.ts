// A cluster: the slot of a key, and the connection that subscribes.

import { EventEmitter } from 'node:events'
import { retryDelayMs } from './budget.ts'
import {
  type ClusterConnection,
  type ClusterNode,
  type Connection,
  type SubscriberConnection,
  textOf,
} from './client-types.ts'

// The slot of a key: the CRC16 (XMODEM) of its hash tag.

const SLOTS = 16_384
const POLYNOMIAL = 0x1021

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1
  return crc
})

export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(hashTagOf(key))) {
    crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ byte] ?? 0)
  }
  return crc % SLOTS
}

/**
 * The text between the first `{` and the next `}`, or the whole key if that text is empty or
 * missing.
 */
function hashTagOf(key: string): string {
  const begin = key.indexOf('{')
  const end = key.indexOf('}', begin + 1)
  return begin >= 0 && end > begin + 1 ? key.slice(begin + 1, end) : key
}

// The subscriber connection in a cluster: a plain connection to one node, and to another node after
// a loss. The cluster subscriber of ioredis does not report that it was disconnected. Its PING may
// go to a node other than the one that sends the messages.

/** Emits the events of a plain ioredis connection: `ready`, `close`, `error`, `messageBuffer`. */
export class ClusterSubscriber implements SubscriberConnection {
  readonly #events = new EventEmitter()
  readonly #cluster: ClusterConnection
  readonly #options: object
  #connection: Connection | undefined
  /** Name of the current node, or of the last one. */
  #nodeName = ''
  #attempt = 0
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(cluster: ClusterConnection, options: object) {
    this.#cluster = cluster
    // After a loss, this class connects to another node. ioredis must not retry the same one.
    this.#options = { ...options, retryStrategy: null }
    cluster.on('ready', () => this.#connect())
    // A node that left the cluster still replies to PING, but receives no messages.
    cluster.on('-node', (node: ClusterNode) => {
      if (textOf(node.options) === this.#nodeName) this.disconnect(true)
    })
  }

  get status(): string {
    return this.#connection?.status ?? 'connecting'
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this.#events.on(event, listener as (...args: unknown[]) => void)
  }

  async subscribe(...channels: string[]): Promise<unknown> {
    return this.#requireConnection().subscribe(...channels)
  }

  async ping(): Promise<unknown> {
    return this.#requireConnection().ping()
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
    this.#nodeName = textOf(node.options)
    const connection = node.duplicate(this.#options)
    this.#connection = connection
    const forward = (event: string) =>
      connection.on(event, (...args: unknown[]) => {
        if (this.#connection === connection) this.#events.emit(event, ...args)
      })
    connection.on('ready', () => {
      this.#attempt = 0
    })
    for (const event of ['ready', 'error', 'messageBuffer']) forward(event)
    connection.on('end', () => {
      if (this.#connection === connection) this.#leave()
    })
  }

  /** Does not wait for the connection to close: a frozen node may take long. */
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

  /** A random master. If there are several, not the last node. */
  #choose(): ClusterNode | undefined {
    if (this.#cluster.status !== 'ready') return undefined
    const nodes = this.#cluster.nodes('master')
    const others = nodes.filter((node) => textOf(node.options) !== this.#nodeName)
    const candidates = others.length > 0 ? others : nodes
    return candidates[Math.floor(Math.random() * candidates.length)]
  }

  #requireConnection(): Connection {
    if (this.#connection === undefined) throw new Error('not connected to a node of the cluster')
    return this.#connection
  }
}
