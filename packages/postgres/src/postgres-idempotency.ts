// IdempotencyStore on PostgreSQL. With a transaction, the record commits with the writes of the
// handler. Without one, the attempt has a lease, and each operation is one function in `sql/`.

import { type Grant, type IdempotencyStore, storeInUse } from '@stampede/core/store'
import { type Database, readReply } from './database.ts'
import { PooledLine, RunnerLine } from './line.ts'
import type { NoticeListener } from './notices.ts'
import type { Fingerprints, Finish, FinishReply } from './transaction.ts'
import { SAVEPOINT, Transaction } from './transaction.ts'
import { type Look, type Looked, Waits } from './waits.ts'

type BeginReply = Awaited<ReturnType<IdempotencyStore['begin']>>
type BeginRequest = Parameters<IdempotencyStore['begin']>[1]
type IdempotencyHooks = Parameters<IdempotencyStore['attach']>[0]
type Inspection = NonNullable<Awaited<ReturnType<IdempotencyStore['inspect']>>>

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const
/** How long a key is reported busy if only its transaction knows when it ends. */
const BUSY_MS = 1_000
/**
 * The order of a list, in which those that need an operator come first. All but completed records
 * have an index. An attempt with a transaction writes none of them, so it does not pay for it. The
 * plan has the name of the state in it, so that PostgreSQL uses this index, or the primary key.
 */
const STATES = ['uncertain', 'running', 'released', 'completed']

export class PostgresIdempotency implements IdempotencyStore {
  readonly name = 'postgres'
  readonly transactions = true
  readonly #db: Database
  readonly #idleMs: number
  readonly #waits: Waits
  /** Transactions that are open here, by the token of their attempt. */
  readonly #open = new Map<string, Transaction>()
  #listener: NoticeListener | undefined

  constructor(db: Database, idleMs: number) {
    this.#db = db
    this.#idleMs = idleMs
    this.#waits = new Waits(db)
  }

  get isReceiving(): boolean {
    return this.#db.notices.isReceiving
  }

  attach(hooks: IdempotencyHooks): void {
    if (this.#listener !== undefined) throw storeInUse('idempotency')
    this.#listener = {
      ...hooks,
      onNotice: (kind, text) => {
        const key = Buffer.from(text, 'hex').toString()
        if (kind === 's') hooks.onSettled(key)
        if (kind === 'w' && this.#waits.wake(key)) hooks.onWake(key)
      },
      onLost: () => {
        this.#waits.unlocked()
        hooks.onLost()
      },
    }
    this.#db.notices.add(this.#listener)
  }

  async begin(key: string, request: BeginRequest): Promise<BeginReply> {
    const { transaction, fingerprints, wait } = request
    const restMs = wait ? this.#waits.restMs(key, fingerprints) : undefined
    if (restMs !== undefined) return { status: 'busy', forMs: restMs }
    let looked = await this.#seen(key, fingerprints)
    looked ??= await (transaction === undefined
      ? this.#beginLease(key, request)
      : this.#beginTransaction(key, request, transaction))
    if (looked.status === 'busy' && wait) looked = await this.#waits.join(key, fingerprints, looked)
    if (looked.status !== 'busy' && looked.status !== 'mismatch') this.#waits.leave(key)
    return this.#replyOf(key, request.token, looked)
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const renewed = grants.map(({ key, token, fence }) => {
      const open = this.#open.get(token)
      return open?.isOpen ?? this.#db.call<boolean>('renew', key, token, fence, leaseMs)
    })
    return Promise.all(renewed)
  }

  async finish(grant: Grant, finish: Finish, prints: Fingerprints): Promise<FinishReply> {
    const { key, token, fence } = grant
    const open = this.#open.get(token)
    if (open !== undefined) {
      this.#open.delete(token)
      return open.finish(finish, prints)
    }
    const frame = finish.as === 'completed' ? finish.frame : ''
    const end = [finish.as, finish.keepMs, frame, prints.exact, prints.canonical] as const
    return this.#db.call<FinishReply>('finish_lease', key, token, fence, ...end)
  }

  readonly keepStep: IdempotencyStore['keepStep'] = ({ key, token, fence }, name, value) =>
    this.#db.call('keep_step', key, token, fence, name, value)

  async inspect(key: string): Promise<Inspection | undefined> {
    const [found] = await this.#read(key, '', 0)
    return found?.[1]
  }

  /** `cursor` is the place of the state in `STATES`, and the last key. */
  readonly list: IdempotencyStore['list'] = async (cursor, limit) => {
    const at = Number(cursor[0] ?? 0)
    const page = await this.#read(cursor.slice(1), STATES[at] ?? '', limit)
    const [last] = page[limit - 1] ?? []
    const next = at < STATES.length - 1 ? `${at + 1}` : ''
    return {
      cursor: last === undefined ? next : `${at}${last}`,
      records: page.flatMap(([key, known]) => (known ? { ...known, key } : [])),
    }
  }

  readonly settle: IdempotencyStore['settle'] = (key, settlement, { force }) => {
    const { as, keepMs } = settlement
    const frame = as === 'completed' ? settlement.frame : ''
    return this.#db.call('settle', key, as, keepMs, frame, force === true ? '1' : force || '0')
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()]
    this.#open.clear()
    await Promise.all(open.map((transaction) => transaction.abandon()))
    if (this.#listener !== undefined) await this.#db.notices.remove(this.#listener)
  }

  /** Keys and their records, which are undefined if they have expired. */
  async #read(
    key: string,
    inState: string,
    limit: number,
  ): Promise<[string, Inspection | undefined][]> {
    const pairs = await this.#db.call<StoredPair[]>('inspect', key, inState, limit)
    return pairs.map(([hex, known]) => {
      const frame = typeof known?.frame === 'string' ? bytesOf(known.frame) : undefined
      return [Buffer.from(hex, 'hex').toString(), known ? { ...known, frame } : undefined]
    })
  }

  /**
   * A key that this process waits for is probably completed. A look needs no transaction. Undefined
   * if an attempt may begin.
   */
  async #seen(key: string, { exact, canonical }: Fingerprints): Promise<Looked | undefined> {
    if (!this.#waits.has(key)) return undefined
    const looked = await this.#db.call<Look>('claim', key, exact, canonical, 0)
    return looked.status === 'free' ? undefined : looked
  }

  #beginLease(key: string, request: BeginRequest): Promise<Looked> {
    const { token, fingerprints, leaseMs, retentionMs, maxAttempts, keepUncertainMs } = request
    const { exact, canonical } = fingerprints
    const times = [leaseMs, retentionMs, maxAttempts, keepUncertainMs]
    return this.#db.call('begin_lease', key, token, exact, canonical, ...times)
  }

  /** If the attempt cannot begin, the connection is given back after ROLLBACK. */
  async #beginTransaction(
    key: string,
    { token, fingerprints }: BeginRequest,
    { isolation, runner }: NonNullable<BeginRequest['transaction']>,
  ): Promise<Looked> {
    const { exact, canonical } = fingerprints
    const level = ISOLATIONS.find((known) => known === isolation)
    const set = level === undefined ? [] : [`set transaction isolation level ${level}`]
    const claim = this.#db.text('claim', key, exact, canonical, this.#idleMs)
    try {
      await this.#db.checked()
      const { pool } = this.#db
      const line = await (runner === undefined
        ? pool.connect().then((client) => new PooledLine(client))
        : RunnerLine.open(runner, pool))
      const statements = [...set, claim, `savepoint ${SAVEPOINT}`]
      const replies = await line.send(statements).catch((error) => {
        line.giveBack(error)
        throw error
      })
      const looked = readReply<Looked>(replies.at(-2))
      if (looked.status === 'begun') {
        const attempt = { key, token, ...looked }
        this.#open.set(token, new Transaction(this.#db, line, attempt, this.#idleMs))
        // The connection returns to the pool later than the reply to the caller.
      } else void line.rollback()
      return looked
    } catch (error) {
      throw this.#db.errorOf('begin', error)
    }
  }

  #replyOf(key: string, token: string, looked: Looked): BeginReply {
    switch (looked.status) {
      case 'begun': {
        const { fence, steps, ...attempt } = looked
        const transaction = this.#open.get(token)
        return {
          ...attempt,
          grant: { key, token, fence },
          steps: new Map(Object.entries(steps ?? {}).map(([name, text]) => [name, bytesOf(text)])),
          ...(transaction && { transaction }),
        }
      }
      case 'completed':
        return { ...looked, frame: bytesOf(looked.frame) }
      case 'busy':
        return { status: 'busy', forMs: looked.forMs ?? BUSY_MS }
      default:
        return { status: looked.status }
    }
  }
}

/** A key in hex, and its record unless it has expired. */
type StoredPair = [string, (Omit<Inspection, 'frame'> & { readonly frame: string | null }) | null]

function bytesOf(base64: string): Uint8Array {
  return Buffer.from(base64, 'base64')
}
