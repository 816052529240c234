// The master that counts if Sentinels disagree. Each fail-over gives its configuration a greater
// epoch, and in the end all Sentinels accept the greatest. After a partition, a Sentinel may still
// name the former master, with a smaller epoch.

import { type Address, type Connection, textOf } from './connection.ts'

/** The master that one Sentinel named. */
export interface Named {
  readonly master: Address
  /** The `config-epoch` of SENTINEL MASTER. -1: unknown, for example refused. */
  readonly epoch: number
}

export class Replies {
  readonly #all: Named[] = []

  add(named: Named): void {
    this.#all.push(named)
  }

  /** Names the master of the greatest epoch. If the epochs are equal, that of most Sentinels. */
  get newest(): Named | undefined {
    const epoch = this.#greatestEpoch
    const counts = new Map<string, number>()
    let newest: Named | undefined
    let most = 0
    for (const named of this.#all) {
      if (named.epoch < epoch) continue
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
  isEnough(sentinels: number): boolean {
    const epoch = this.#greatestEpoch
    const newest = this.#all.filter((named) => named.epoch === epoch)
    const places = new Set(newest.map(({ master }) => textOf(master)))
    return 2 * this.#all.length > sentinels && places.size === 1
  }

  get #greatestEpoch(): number {
    return Math.max(...this.#all.map(({ epoch }) => epoch))
  }
}

/** `reply` is that of SENTINEL MASTER: names and values by turns, or with RESP3 a map. */
export function epochIn(reply: unknown): number {
  const pairs = Array.isArray(reply) ? reply : Object.entries(reply ?? {}).flat()
  const fields = pairs.map(String)
  const at = fields.indexOf('config-epoch')
  const epoch = at === -1 ? Number.NaN : Number(fields[at + 1])
  return Number.isInteger(epoch) ? epoch : -1
}

// Makes a connection of ioredis ask all Sentinels for the master. By itself, it takes the master
// that the first Sentinel names, even if this Sentinel has missed the latest fail-over.

/** Time between two checks of the master. A report of a fail-over may have been lost. */
const CHECK_MS = 10_000

interface SentinelClient {
  sentinel(subcommand: 'master', name: string): Promise<unknown>
}

/** The members of ioredis's SentinelConnector that are used here: the same in versions 5 and 6. */
interface SentinelConnector {
  readonly options: { readonly name: string }
  readonly sentinelIterator: { readonly sentinels: readonly object[] }
  /** Asks one Sentinel. */
  resolve(sentinel: object): Promise<Address | null>
  /** The part of `resolve` that has a connection to the Sentinel. */
  resolveMaster(client: SentinelClient): Promise<Address | null>
}

/**
 * Must be called before the connection connects. `patienceMs`: see `findNewest`. If a later version
 * of ioredis lacks the members, the connection works as ioredis made it.
 */
export function askAllSentinels(connection: Connection, patienceMs: number): void {
  const { connector } = connection as { readonly connector?: SentinelConnector }
  if (typeof connector?.resolve !== 'function') return
  if (typeof connector.resolveMaster !== 'function') return
  const { name } = connector.options
  const resolve = connector.resolve.bind(connector)
  const resolveMaster = connector.resolveMaster.bind(connector)
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
  const ask = async (sentinel: object): Promise<Named | undefined> => {
    const master = await resolve(sentinel)
    return master === null ? undefined : { master, epoch: epochs.get(master) ?? -1 }
  }
  const sentinels = () => connector.sentinelIterator.sentinels
  const find = () => findNewest({ sentinels, ask, patienceMs })
  let current: Named | undefined
  connector.resolve = async () => {
    current = await find()
    return current === undefined ? null : { ...current.master }
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

/** A search for the master. */
export interface Search<S> {
  /** The known Sentinels. A reply may add some. */
  sentinels(): readonly S[]
  /** Asks one Sentinel. Undefined if it knows no master. */
  ask(sentinel: S): Promise<Named | undefined>
  /** How long to wait for more replies after the first. Undefined: until all have ended. */
  readonly patienceMs?: number
  /**
   * The master that a fail-over just named. Most Sentinels may not know its epoch yet. So this
   * master counts as soon as one Sentinel names it.
   */
  expected?(): string | undefined
}

/**
 * Asks all Sentinels at once, and resolves as soon as enough have replied. Undefined if none knows
 * a master. Rejects if none does and one failed.
 */
export function findNewest<S>(search: Search<S>): Promise<Named | undefined> {
  const replies = new Replies()
  const asked = new Set<S>()
  let ended = 0
  let failure: Error | undefined
  let timer: NodeJS.Timeout | undefined
  return new Promise((resolve, reject) => {
    const end = (named = replies.newest) => {
      clearTimeout(timer)
      if (named === undefined && failure !== undefined) reject(failure)
      else resolve(named)
    }
    const onEnd = (named?: Named) => {
      ended += 1
      const expected = search.expected?.()
      if (named !== undefined) {
        replies.add(named)
        if (textOf(named.master) === expected) return end(named)
        if (search.patienceMs !== undefined) timer ??= setTimeout(end, search.patienceMs)
      }
      askNew()
      if (ended === asked.size || (!expected && replies.isEnough(asked.size))) end()
    }
    const askNew = () => {
      for (const sentinel of search.sentinels()) {
        if (asked.has(sentinel)) continue
        asked.add(sentinel)
        search.ask(sentinel).then(onEnd, (error: Error) => {
          failure = error
          onEnd()
        })
      }
    }
    askNew()
  })
}
