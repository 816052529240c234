// LockStore on PostgreSQL. Acquire, renew and release are one statement, in one round trip. If a
// release hands a lock over, a notice on the channel of the next process names its grant.

import {
  ANY_FENCE,
  type Clock,
  type Grant,
  type LockStore,
  storeInUse,
} from '@stampede/core/store'
import type { PostgresLink } from './link.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]
type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

/**
 * Without notices, a waiter is told that the lease ends after this time at most. So it sends its
 * request again.
 */
const POLL_MS = 100

/** `<id in hex> <token>` */
const NOTICE = /^([0-9a-f]{64}) (\S+)$/

export class PostgresLocks implements LockStore {
  readonly name = 'postgres'
  readonly #link: PostgresLink
  readonly #schema: string
  #hooks: LockHooks | undefined
  #listening: ReturnType<PostgresLink['listen']> | undefined

  constructor(link: PostgresLink) {
    this.#link = link
    this.#schema = `"${link.schema}"`
  }

  attach(hooks: LockHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createLocks')
    this.#hooks = hooks
  }

  async acquire(key: string, { token, leaseMs, queue }: LockRequest): Promise<LockReply> {
    const { processId, polls } = this.#link
    // A notice that is sent before this process listens would be lost.
    if (queue) await this.#listen()
    const text = `select granted, fence::text, rest
      from ${this.#schema}.lock_acquire($1, $2, $3, $4)`
    const values = [bytes(key), token, leaseMs, queue ? processId : null]
    const [row] = await this.#link.query<AcquireRow>('acquire-lock', text, values)
    const { granted, fence, rest: forMs } = row as AcquireRow
    if (granted) return { status: 'granted', grant: { key, token, fence }, forMs }
    return { status: 'busy', forMs: queue && polls ? Math.min(forMs, POLL_MS) : forMs }
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const text = `update ${this.#schema}.lock l
      set since = clock_timestamp(), lease_until = clock_timestamp() + $4 * interval '1 ms'
      from unnest($1::bytea[], $2::text[], $3::bigint[]) as g (key, token, fence)
      where l.id = sha256(g.key) and l.token = g.token and l.fence = g.fence returning l.token`
    const values = [
      grants.map(({ key }) => bytes(key)),
      grants.map(({ token }) => token),
      grants.map(({ fence }) => fence),
      leaseMs,
    ]
    const rows = await this.#link.query<{ token: string }>('renew-lock', text, values)
    const renewed = new Set(rows.map(({ token }) => token))
    return grants.map(({ token }) => renewed.has(token))
  }

  async release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    const { key, token, fence } = grant
    const text = `select released, fence::text, rest
      from ${this.#schema}.lock_release($1, $2, $3, $4, $5, $6)`
    const values = [
      ...[bytes(key), token, fence === ANY_FENCE ? null : fence],
      ...[this.#link.processId, next?.token ?? null, next?.leaseMs ?? null],
    ]
    const [row] = await this.#link.query<ReleaseRow>('release-lock', text, values)
    const { released, fence: granted, rest: forMs } = row as ReleaseRow
    if (!released) return { status: 'lost' }
    if (next !== undefined && granted !== null) {
      const again = { key, token: next.token, fence: granted }
      return { status: 'released', granted: { grant: again, forMs } }
    }
    if (forMs === 0) return { status: 'released' }
    return { status: 'released', busyForMs: this.#link.polls ? Math.min(forMs, POLL_MS) : forMs }
  }

  async leave(key: string): Promise<void> {
    const text = `delete from ${this.#schema}.lock_queue where id = sha256($1) and process = $2`
    await this.#link.query('leave-queue', text, [bytes(key), this.#link.processId])
  }

  async close(): Promise<void> {
    await this.#listening?.stop()
  }

  async #listen(): Promise<void> {
    const { schema, processId } = this.#link
    const hooks = this.#hooks
    if (hooks === undefined) return
    this.#listening ??= this.#link.listen(`${schema}:${processId}`, {
      clock: hooks.clock,
      onMessage: (message) => void this.#receive(message, hooks.clock).catch(() => {}),
      onGap: () => hooks.onGap(),
      onLost: () => hooks.onLost(),
      onError: (operation, error) => hooks.onError(operation, error),
    })
    await this.#listening.ready
  }

  /**
   * Asks for the grant that a notice names. The rest of its lease counts from before the question,
   * so no clock of this process is compared with that of the server. If the question fails, waiters
   * try again by themselves, and the unused claim ends.
   */
  async #receive(message: string, clock: Clock): Promise<void> {
    const [, id, token] = NOTICE.exec(message) ?? []
    if (id === undefined || token === undefined) return
    const sentAt = clock.now()
    const text = `select key, fence::text, ${this.#schema}.lock_rest(l) as rest
      from ${this.#schema}.lock l where id = decode($1, 'hex') and token = $2`
    const [row] = await this.#link.query<GrantRow>('read-grant', text, [id, token])
    if (row === undefined || row.rest === 0) return
    const grant = { key: row.key.toString(), token, fence: row.fence }
    this.#hooks?.onGrant(grant, row.rest - (clock.now() - sentAt))
  }
}

/** The key as bytes, because text in PostgreSQL cannot contain NUL. */
const bytes = (key: string): Buffer => Buffer.from(key)

interface AcquireRow {
  readonly granted: boolean
  readonly fence: string
  readonly rest: number
}

interface ReleaseRow {
  readonly released: boolean
  readonly fence: string | null
  readonly rest: number
}

interface GrantRow {
  readonly key: Buffer
  readonly fence: string
  readonly rest: number
}
