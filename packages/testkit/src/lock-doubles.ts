// A lock store for tests, with scripted faults: it fails, stalls and loses replies.

import { type Grant, type LockStore, storeUnavailable } from '@stampede/core/store'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]

type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

/** An operation of a lock store that can fail in a test. */
export type LockOperation = 'acquire' | 'renew' | 'release' | 'leave'

/** The fault of one call. `work` runs the call on the real store. */
export type LockFault = (work: () => Promise<unknown>) => Promise<unknown>

/** The command is not executed. */
export const refused: LockFault = async () => {
  throw new Error('the store is away')
}

/** The command is executed, and its reply is lost. */
export const unheard: LockFault = async (work) => {
  await work()
  throw storeUnavailable('faulty', 'lock', new Error('the reply was lost'))
}

/** A barrier at which a call stops until the test opens it. */
export class Barrier {
  #open: () => void = () => {}
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  open(): void {
    this.#open()
  }

  /** The command is executed when the barrier opens. */
  readonly before: LockFault = async (work) => {
    await this.#opened
    return work()
  }

  /** The command is executed at once, and its reply comes when the barrier opens. */
  readonly after: LockFault = async (work) => {
    const reply = await work()
    await this.#opened
    return reply
  }

  /** Works like `after`, but the reply is lost. */
  readonly afterUnheard: LockFault = async (work) => {
    await this.after(work)
    return unheard(async () => {})
  }
}

/**
 * A lock store that passes calls to another one, unless a fault is set. Records each call as
 * `operation key`.
 */
export class FaultyLocks implements LockStore {
  readonly name = 'faulty'
  readonly calls: string[] = []
  /** Replies of acquire. */
  readonly grants: Grant[] = []
  /** The fault of each call that has no other fault. */
  always: LockFault | undefined
  readonly #inner: LockStore
  readonly #faults = new Map<LockOperation, LockFault[]>()
  #hooks: LockHooks | undefined

  constructor(inner: LockStore) {
    this.#inner = inner
  }

  /** Sets the fault of the next call of `operation` for which no fault is set yet. */
  next(operation: LockOperation, fault: LockFault): this {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), fault])
    return this
  }

  /** Returns the calls since this method was last called. */
  take(): string[] {
    return this.calls.splice(0)
  }

  /** Messages that the store's server would send. */
  get hooks(): LockHooks {
    if (this.#hooks === undefined) throw new Error('not attached')
    return this.#hooks
  }

  attach(hooks: LockHooks): void {
    this.#hooks = hooks
    this.#inner.attach(hooks)
  }

  acquire(key: string, request: LockRequest): Promise<LockReply> {
    return this.#run('acquire', key, async () => {
      const reply = await this.#inner.acquire(key, request)
      if (reply.status === 'granted') this.grants.push(reply.grant)
      return reply
    })
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const keys = grants.map(({ key }) => key).join(' ')
    return this.#run('renew', keys, () => this.#inner.renew(grants, leaseMs))
  }

  release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    return this.#run('release', grant.key, () => this.#inner.release(grant, next))
  }

  leave(key: string): Promise<void> {
    return this.#run('leave', key, () => this.#inner.leave(key))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  #run<T>(operation: LockOperation, key: string, work: () => Promise<T>): Promise<T> {
    this.calls.push(`${operation} ${key}`)
    const fault = this.#faults.get(operation)?.shift() ?? this.always
    return fault === undefined ? work() : (fault(work) as Promise<T>)
  }
}
