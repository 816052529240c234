// The master that counts if Sentinels disagree. Each fail-over gives its configuration a greater
// epoch, and in the end all Sentinels accept the greatest. After a partition, a Sentinel may still
// name the former master, with a smaller epoch.

import { type Address, type Connection, textOf } from './client-types.ts'

/** The master that one Sentinel named. */
export interface Named {
  readonly master: Address
  /** The `config-epoch` of SENTINEL MASTER. -1: unknown, for example refused. */
  readonly epoch: number
}

/** The master of the greatest epoch. If the epochs are equal, that of most Sentinels. */
export function newestOf(replies: readonly Named[]): Named | undefined {
  const counts = new Map<string, number>()
  let newest: Named | undefined
  let most = 0
  for (const named of withGreatestEpoch(replies)) {
    const text = textOf(named.master)
    const count = (counts.get(text) ?? 0) + 1
    counts.set(text, count)
    if (count > most) [newest, most] = [named, count]
  }
  return newest
}

/**
 * Whether no further reply is needed. A fail-over needs most Sentinels, so one of any majority
 * knows its epoch.
 */
export function areEnough(replies: readonly Named[], sentinels: number): boolean {
  const places = new Set(withGreatestEpoch(replies).map(({ master }) => textOf(master)))
  return 2 * replies.length > sentinels && places.size === 1
}

function withGreatestEpoch(replies: readonly Named[]): Named[] {
  const greatest = Math.max(...replies.map(({ epoch }) => epoch))
  return replies.filter(({ epoch }) => epoch === greatest)
}

/** `reply` is that of SENTINEL MASTER: names and values by turns. */
export function epochIn(reply: unknown): number {
  const fields = Array.isArray(reply) ? reply.map(String) : []
  const at = fields.indexOf('config-epoch')
  const epoch = at === -1 ? Number.NaN : Number(fields[at + 1])
  return Number.isInteger(epoch) ? epoch : -1
}

// Makes a connection of ioredis ask all Sentinels for the master. By itself, it takes the master
// that the first Sentinel names, even if this Sentinel has missed the latest fail-over.

/** Time between two checks of the master. A report of a fail-over may have been lost. */
const CHECK_MS = 10_000

type Sentinel = Partial<Address>

interface SentinelClient {
  sentinel(subcommand: 'master', name: string): Promise<unknown>
  on(event: 'error', listener: () => void): unknown
}

/** The members of ioredis's SentinelConnector that are used here: the same in versions 5 and 6. */
interface SentinelConnector {
  readonly options: { readonly name: string }
  readonly sentinelIterator: { readonly sentinels: readonly Sentinel[] }
  /** Asks one Sentinel. */
  resolve(sentinel: Sentinel): Promise<Address | null>
  connectToSentinel(...args: readonly unknown[]): SentinelClient
  /** The part of `resolve` that has a connection to the Sentinel. */
  resolveMaster(client: SentinelClient): Promise<Address | null>
}

/**
 * Must be called before the connection connects. Does nothing to a connection without Sentinels.
 * `patienceMs`: how long to wait for more replies after the first. If a later version of ioredis
 * lacks the members, the connection works as ioredis made it.
 */
export function askAllSentinels(connection: Connection, patienceMs: number): void {
  const { connector } = connection as { readonly connector?: SentinelConnector }
  if (typeof connector?.resolve !== 'function') return
  const { resolveMaster: ofOne, connectToSentinel: connectTo } = connector
  if (typeof ofOne !== 'function' || typeof connectTo !== 'function') return
  const { name } = connector.options
  const connectToSentinel = connectTo.bind(connector)
  connector.connectToSentinel = (...args) => {
    const client = connectToSentinel(...args)
    // Without a listener, ioredis prints the errors of the connections that wait for a fail-over.
    client.on('error', () => {})
    return client
  }
  const resolve = connector.resolve.bind(connector)
  const resolveMaster = ofOne.bind(connector)
  const epochs = new WeakMap<Address, number>()
  connector.resolveMaster = async (client) => {
    // Asked first, so that a fail-over between the replies cannot make the epoch too great.
    const asked = client.sentinel('master', name).then(epochIn, () => -1)
    const found = await resolveMaster(client)
    // The user's `natMap` may return one object for several replies.
    const master = found && { ...found }
    if (master !== null) epochs.set(master, await asked)
    return master
  }
  const ask = async (sentinel: Sentinel): Promise<Named | undefined> => {
    const master = await resolve(sentinel).catch((error: Error) => {
      throw new Error(`Sentinel ${textOf(sentinel)}: ${error.message}`)
    })
    return master === null ? undefined : { master, epoch: epochs.get(master) ?? -1 }
  }
  const find = () => findNewest(() => connector.sentinelIterator.sentinels, ask, patienceMs)
  let current: Named | undefined
  connector.resolve = async () => {
    current = await find()
    // Otherwise ioredis would say that all Sentinels are unreachable.
    if (current === undefined) throw new Error(`no Sentinel knows a master with the name ${name}`)
    return { ...current.master }
  }
  const check = async () => {
    const newest = await find()
    if (current === undefined || newest === undefined || newest.epoch <= current.epoch) return
    if (textOf(newest.master) !== textOf(current.master)) connection.disconnect(true)
  }
  let timer: NodeJS.Timeout | undefined
  connection.on('ready', () => {
    clearInterval(timer)
    timer = setInterval(() => check().catch(() => {}), CHECK_MS).unref()
  })
  connection.on('close', () => clearInterval(timer))
}

/**
 * Asks all Sentinels at once, and resolves as soon as enough have replied. `sentinels` returns the
 * known ones: a reply may add some. Undefined if none knows a master. Rejects if none does and one
 * failed.
 */
function findNewest(
  sentinels: () => readonly Sentinel[],
  ask: (sentinel: Sentinel) => Promise<Named | undefined>,
  patienceMs: number,
): Promise<Named | undefined> {
  const replies: Named[] = []
  const asked = new Set<Sentinel>()
  let ended = 0
  let failure: Error | undefined
  let timer: NodeJS.Timeout | undefined
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      const newest = newestOf(replies)
      if (newest === undefined && failure !== undefined) reject(failure)
      else resolve(newest)
    }
    const onEnd = (named?: Named) => {
      ended += 1
      if (named !== undefined) {
        replies.push(named)
        timer ??= setTimeout(end, patienceMs)
      }
      askNew()
      if (ended === asked.size || areEnough(replies, asked.size)) end()
    }
    const askNew = () => {
      for (const sentinel of sentinels()) {
        if (asked.has(sentinel)) continue
        asked.add(sentinel)
        ask(sentinel).then(onEnd, (error: Error) => {
          failure = error
          onEnd()
        })
      }
    }
    askNew()
  })
}
