// The Sentinels of a master: which server they name, and the fail-overs that they report. Used with
// node-redis, whose Sentinel client repeats commands without a time limit.

import { withBudget } from '../connection/budget.ts'
import { type Address, type Connection, textOf } from '../connection/connection.ts'
import { isRefusal, lastErrorOf, rememberErrors } from '../connection/refusal.ts'
import { epochIn, findNewest, type Named } from '../connection/sentinels.ts'

const SWITCHED = '+switch-master'
/** Time between two PINGs. Without them, a dead connection looks like one without fail-overs. */
const HEARTBEAT_MS = 10_000
/** How long one Sentinel suffices to confirm the master that a fail-over named. */
const RECENT_MS = 10_000

export interface SentinelsOptions {
  /** Name of the master. */
  readonly name: string
  /** Addresses of the Sentinels. */
  readonly nodes: readonly Address[]
  /** Opens a connection that takes commands while it subscribes, and that reconnects. */
  open(node: Address): Connection
  /** Time for the reply of one Sentinel. */
  readonly askMs: number
  /** Called when the master may be another server than before. */
  onMoved(master: Address): void
}

export class Sentinels {
  readonly #options: SentinelsOptions
  readonly #connections: readonly Connection[]
  readonly #heartbeat: NodeJS.Timeout
  #finding: Promise<Address> | undefined
  /** Connections whose Sentinel refused the subscription, so that it reports no fail-over. */
  readonly #silent = new Set<Connection>()
  /** The master that the latest reported fail-over named. */
  #switched: { readonly to: Address; readonly at: number } | undefined

  constructor(options: SentinelsOptions) {
    this.#options = options
    this.#connections = options.nodes.map((node) => this.#connect(node))
    this.#heartbeat = setInterval(() => {
      for (const connection of this.#connections) connection.ping().catch(() => {})
      if (this.#silent.size > 0) this.#check()
    }, HEARTBEAT_MS)
    this.#heartbeat.unref()
  }

  /** Address of the master. Rejects if no Sentinel names one. */
  find(): Promise<Address> {
    this.#finding ??= this.#vote().finally(() => {
      this.#finding = undefined
    })
    return this.#finding
  }

  close(): void {
    clearInterval(this.#heartbeat)
    for (const connection of this.#connections) connection.disconnect()
  }

  async #vote(): Promise<Address> {
    const { nodes, name } = this.#options
    const found = await findNewest({
      sentinels: () => this.#connections,
      ask: (connection) =>
        this.#ask(connection).catch((error: Error) => {
          const node = nodes[this.#connections.indexOf(connection)] as Address
          throw new Error(`Sentinel ${textOf(node)}: ${error.message}`)
        }),
      expected: () => this.#recentSwitch(),
    })
    if (found === undefined) throw new Error(`no Sentinel knows a master with the name ${name}`)
    return found.master
  }

  async #ask(connection: Connection): Promise<Named | undefined> {
    const { name, askMs } = this.#options
    if (connection.status !== 'ready') await withBudget(askMs, settled(connection))
    // Asked first, so that a fail-over between the replies cannot make the epoch too great.
    const epoch = connection.callBuffer('SENTINEL', 'MASTER', name).then(epochIn, () => -1)
    const asked = connection.callBuffer('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
    const [reply, known] = await withBudget(askMs, Promise.all([asked, epoch]))
    const [host, port] = Array.isArray(reply) ? reply : []
    const master = readAddress(host, port)
    return master && { master, epoch: known }
  }

  #connect(node: Address): Connection {
    const connection = this.#options.open(node)
    rememberErrors(connection)
    connection.on('ready', () => {
      // Reports may have been missed before the subscription.
      connection.subscribe(SWITCHED).then(
        () => {
          this.#silent.delete(connection)
          this.#check()
        },
        (error: Error) => {
          // A new connection would be refused, too. Without this check, connections would be opened
          // without end.
          if (isRefusal(error)) this.#silent.add(connection)
          else connection.disconnect(true)
        },
      )
    })
    connection.on('messageBuffer', (_: Buffer, message: Buffer) => this.#onSwitch(String(message)))
    return connection
  }

  /** `message` is `<name> <old host> <old port> <host> <port>`. */
  #onSwitch(message: string): void {
    const [name, , , host, port] = message.split(' ')
    const to = readAddress(host, port)
    if (name !== this.#options.name || to === undefined) return
    this.#switched = { to, at: performance.now() }
    this.#options.onMoved(to)
  }

  #check(): void {
    this.find().then(
      (master) => this.#options.onMoved(master),
      // The next attempt to connect reports why no Sentinel names a master.
      () => {},
    )
  }

  /** The master that a recent report named. */
  #recentSwitch(): string | undefined {
    if (this.#switched === undefined) return undefined
    const { to, at } = this.#switched
    return performance.now() - at < RECENT_MS ? textOf(to) : undefined
  }
}

/** Resolves when the connection is ready. Rejects if its latest attempt to connect has failed. */
async function settled(connection: Connection): Promise<void> {
  if (lastErrorOf(connection) !== undefined) throw lastErrorOf(connection)
  await new Promise<void>((resolve, reject) => {
    connection.on('ready', () => resolve())
    connection.on('error', reject)
  })
}

function readAddress(host: unknown, port: unknown): Address | undefined {
  const number = Number(port)
  const isPort = Number.isInteger(number) && number > 0 && number < 65_536
  return isPort && String(host) !== '' ? { host: String(host), port: number } : undefined
}
