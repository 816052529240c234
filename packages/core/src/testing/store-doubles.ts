// Doubles of a store: one with scripted faults, and two processes on one RecordStore.

import { storeUnavailable } from '../errors.ts'
import type { LockStore } from '../ports/lock-store.ts'
import type {
  CommitReply,
  Grant,
  LookupReply,
  LookupRequest,
  StampedeStore,
  StoreHooks,
} from '../ports/store.ts'
import { type Fault, FaultyIdempotency, sharedIdempotency } from './idempotency-doubles.ts'
import { RecordStore } from './record-store.ts'

export type Operation = 'lookup' | 'commit' | 'pass' | 'fail' | 'renew' | 'purge' | 'mark'

/** The command is not executed. */
export const refuse: Fault = async () => {
  throw new Error('the store is away')
}

/** The command is not executed, and the store throws at once, as a closed one does. */
export const throwAtOnce: Fault = () => {
  throw new Error('the store is closed')
}

/** The command is executed, and its reply is lost. */
export const loseReply: Fault = async (work) => {
  await work()
  throw storeUnavailable('faulty', 'run', new Error('the reply was lost'))
}

/** A gate at which calls wait until the test opens it. */
export class Gate {
  #open: () => void = () => {}
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  open(): void {
    this.#open()
  }

  /** The command is executed at once, and its reply comes when the gate opens. */
  readonly delayReply: Fault = async (work) => {
    const reply = await work()
    await this.#opened
    return reply
  }

  /** Like `delayReply`, and then the reply is lost. */
  readonly delayAndLose: Fault = async (work) => {
    await work()
    await this.#opened
    throw new Error('the reply was lost')
  }
}

/** Passes calls on to a store, unless a fault is set. Records them as `operation key`. */
export class FaultyStore implements StampedeStore {
  readonly name = 'faulty'
  hasTimeBudget = true
  readonly isAvailable = true
  readonly locks: LockStore
  readonly idempotency: FaultyIdempotency
  readonly operator: StampedeStore['operator']
  readonly calls: string[] = []
  /** The fault of every call without a fault of its own. */
  always: Fault | undefined
  confirmed: number | undefined
  readonly #inner: StampedeStore
  readonly #faults = new Map<Operation, Fault[]>()
  #hooks: StoreHooks | undefined

  constructor(inner: StampedeStore = new RecordStore()) {
    this.#inner = inner
    this.locks = inner.locks
    this.operator = inner.operator
    this.idempotency = new FaultyIdempotency(inner.idempotency)
  }

  /** Sets the fault of the next call of `operation` that has none yet. */
  next(operation: Operation, fault: Fault): this {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), fault])
    return this
  }

  /** Removes every fault that has not happened yet. */
  heal(): void {
    this.always = undefined
    this.#faults.clear()
  }

  /** Messages that the store's server would send. */
  get hooks(): StoreHooks {
    if (this.#hooks === undefined) throw new Error('not attached')
    return this.#hooks
  }

  attach(hooks: StoreHooks): void {
    this.#hooks = hooks
    this.#inner.attach(hooks)
  }

  lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    return this.#run('lookup', key, () => this.#inner.lookup(key, request))
  }

  commit(
    ...[grant, ...rest]: Parameters<StampedeStore['commit']>
  ): ReturnType<StampedeStore['commit']> {
    return this.#run('commit', grant.key, () => this.#inner.commit(grant, ...rest))
  }

  get position(): number {
    return this.#inner.position
  }

  /** The value of the real store, unless the test sets one. */
  get confirmedAt(): number {
    return this.confirmed ?? this.#inner.confirmedAt
  }

  mark(subjects: string | readonly string[], options: { soft: boolean }): Promise<void> {
    return this.#run('mark', String(subjects), () => this.#inner.mark(subjects, options))
  }

  pass(...args: Parameters<StampedeStore['pass']>): ReturnType<StampedeStore['pass']> {
    return this.#run('pass', args[0].key, () => this.#inner.pass(...args))
  }

  fail(...args: Parameters<StampedeStore['fail']>): Promise<CommitReply> {
    return this.#run('fail', args[0].key, () => this.#inner.fail(...args))
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const keys = grants.map(({ key }) => key).join(' ')
    return this.#run('renew', keys, () => this.#inner.renew(grants, leaseMs))
  }

  purge(key: string, options: { soft: boolean }): Promise<void> {
    return this.#run('purge', key, () => this.#inner.purge(key, options))
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  #run<T>(operation: Operation, key: string, work: () => Promise<T>): Promise<T> {
    this.calls.push(`${operation} ${key}`)
    const fault = this.#faults.get(operation)?.shift() ?? this.always
    return fault === undefined ? work() : (fault(work) as Promise<T>)
  }
}

/**
 * Stores of two processes on the same data. Both get wake-ups, and each gets the purges of the
 * other.
 */
export function sharedStores(): { a: FaultyStore; b: FaultyStore } {
  const inner = new RecordStore()
  const hooks: StoreHooks[] = []
  // Sent on another connection than the replies, and after them.
  const messages = (key: string) => {
    setImmediate(() => {
      for (const each of hooks) each.onWake(key)
    })
  }
  const idempotency = sharedIdempotency(inner.idempotency)
  let open = 2
  const member = (): StampedeStore => {
    return {
      name: 'shared',
      isAvailable: true,
      locks: inner.locks,
      operator: inner.operator,
      idempotency: idempotency(),
      get position() {
        return inner.position
      },
      confirmedAt: Number.POSITIVE_INFINITY,
      attach(its) {
        hooks.push(its)
        if (hooks.length > 1) return
        const onMark: StoreHooks['onMark'] = (mark) => {
          for (const each of hooks) each.onMark(mark)
        }
        const onPurge: StoreHooks['onPurge'] = (key, options) => {
          for (const each of hooks) each.onPurge(key, options)
        }
        inner.attach({ ...its, onMark, onPurge, onWake: (key) => messages(key) })
      },
      lookup: (key, request) => inner.lookup(key, request),
      commit: (grant, frame, lifetimes) => inner.commit(grant, frame, lifetimes),
      mark: (subject, options) => inner.mark(subject, options),
      pass: (...args) => inner.pass(...args),
      fail: (...args) => inner.fail(...args),
      renew: (grants, leaseMs) => inner.renew(grants, leaseMs),
      purge: (key, options) => inner.purge(key, options),
      async close() {
        open -= 1
        if (open === 0) await inner.close()
      },
    }
  }
  return { a: new FaultyStore(member()), b: new FaultyStore(member()) }
}
