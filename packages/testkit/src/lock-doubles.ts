// A lock store for tests that fails, stalls and forgets as it is told to.

import type {
  Grant,
  LockHooks,
  LockRelease,
  LockReply,
  LockRequest,
  LockStore,
} from '@stampede/core/store'

export type LockOperation = 'acquire' | 'renew' | 'release' | 'leave'

/** What becomes of one call; `work` does it on the store behind. */
export type LockFault = (work: () => Promise<unknown>) => Promise<unknown>

/** Nothing is done. */
export const refused: LockFault = async () => {
  throw new Error('the store is away')
}

/** Everything is done, and nobody hears of it. */
export const unheard: LockFault = async (work) => {
  await work()
  throw new Error('the reply was lost')
}

/** A point at which a call stops until the test opens it. */
export class Barrier {
  #open: () => void = () => {}
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  open(): void {
    this.#open()
  }

  /** Nothing is done before it opens. */
  readonly before: LockFault = async (work) => {
    await this.#opened
    return work()
  }

  /** The work is done at once, its reply comes when the barrier opens. */
  readonly after: LockFault = async (work) => {
    const reply = await work()
    await this.#opened
    return reply
  }

  /** As `after`, and then the reply is lost. */
  readonly afterUnheard: LockFault = async (work) => {
    await work()
    await this.#opened
    throw new Error('the reply was lost')
  }
}

/** Passes calls on to a lock store, as long as it is not told otherwise. Records them as `operation key`. */
export class FaultyLocks implements LockStore {
  readonly name = 'faulty'
  readonly calls: string[] = []
  /** What acquire replied. */
  readonly grants: Grant[] = []
  /** Holds for every operation that has no fault of its own. */
  always: LockFault | undefined
  readonly #inner: LockStore
  readonly #faults = new Map<LockOperation, LockFault[]>()
  #hooks: LockHooks | undefined

  constructor(inner: LockStore) {
    this.#inner = inner
  }

  /** For the next call of `operation` that has no fault yet. */
  next(operation: LockOperation, fault: LockFault): this {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), fault])
    return this
  }

  /** The calls since the last call of this. */
  take(): string[] {
    return this.calls.splice(0)
  }

  /** What this store would be told by its server. */
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
