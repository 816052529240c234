// LockStore on PostgreSQL. Acquire, renew and release are one function call, in one round trip. If
// a release hands a lock over, a notice on the channel of the next process names its grant.

import { type Grant, type LockStore, storeInUse } from '@stampede/core/store'
import { type Database, hex } from './database.ts'
import type { NoticeListener } from './notices.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]
type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

/**
 * Limit of the remaining lease in a reply to a waiter, if no notices arrive. After that time, the
 * waiter sends its request again.
 */
const POLL_MS = 100

export class PostgresLocks implements LockStore {
  readonly name = 'postgres'
  readonly #db: Database
  #listener: NoticeListener | undefined

  constructor(db: Database) {
    this.#db = db
  }

  attach(hooks: LockHooks): void {
    if (this.#listener !== undefined) throw storeInUse('createLocks')
    this.#listener = {
      ...hooks,
      onNotice: (kind, text) => {
        if (kind === 'g') void this.#receive(text, hooks).catch(() => {})
      },
    }
    this.#db.notices.add(this.#listener)
  }

  async acquire(key: string, { token, leaseMs, queue }: LockRequest): Promise<LockReply> {
    const { notices } = this.#db
    // A notice that is sent before this process listens would be lost.
    if (queue) await notices.ready
    const process = queue ? notices.processId : ''
    const reply = await this.#db.call<AcquireReply>('lock_acquire', key, token, leaseMs, process)
    const { granted, fence, forMs } = reply
    if (granted) return { status: 'granted', grant: { key, token, fence }, forMs }
    return { status: 'busy', forMs: queue ? this.#askAgainAfter(forMs) : forMs }
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const list = grants.map(({ key, token, fence }) => [hex(key), hex(token), fence])
    const renewed = await this.#db.call<string[]>('lock_renew', JSON.stringify(list), leaseMs)
    return list.map(([key, token]) => renewed.includes(`${key} ${token}`))
  }

  async release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    const { key, token, fence } = grant
    const { processId } = this.#db.notices
    const place = next === undefined ? ['', '', 0] : [processId, next.token, next.leaseMs]
    const reply = await this.#db.call<ReleaseReply>('lock_release', key, token, fence, ...place)
    if (!reply.released) return { status: 'lost' }
    const { forMs } = reply
    if (next !== undefined && reply.fence !== null) {
      const granted = { key, token: next.token, fence: reply.fence }
      return { status: 'released', granted: { grant: granted, forMs } }
    }
    if (forMs === 0) return { status: 'released' }
    return { status: 'released', busyForMs: this.#askAgainAfter(forMs) }
  }

  async leave(key: string): Promise<void> {
    await this.#db.call('lock_leave', key, this.#db.notices.processId)
  }

  async close(): Promise<void> {
    if (this.#listener !== undefined) await this.#db.notices.remove(this.#listener)
  }

  #askAgainAfter(forMs: number): number {
    return this.#db.notices.isReceiving ? forMs : Math.min(forMs, POLL_MS)
  }

  /**
   * Asks for the grant that a notice names: `<id> <token>`, in hex. The rest of its lease counts
   * from before the question, so no clock of this process is compared with that of the server. If
   * the question fails, waiters try again by themselves, and the unused claim ends.
   */
  async #receive(text: string, hooks: LockHooks): Promise<void> {
    const [id = '', token = ''] = text.split(' ').map((part) => Buffer.from(part, 'hex'))
    const sentAt = hooks.clock.now()
    const reply = await this.#db.call<GrantedReply | null>('lock_granted', id, token)
    if (reply === null || reply.forMs === 0) return
    const key = Buffer.from(reply.key, 'hex').toString()
    const grant = { key, token: token.toString(), fence: reply.fence }
    hooks.onGrant(grant, reply.forMs - (hooks.clock.now() - sentAt))
  }
}

/** A lock, as functions in `sql/` reply it. */
interface State {
  readonly fence: string
  readonly forMs: number
}

type AcquireReply = State & { readonly granted: boolean }
type GrantedReply = State & { readonly key: string }
type ReleaseReply =
  | { readonly released: false }
  | { readonly released: true; readonly fence: string | null; readonly forMs: number }
