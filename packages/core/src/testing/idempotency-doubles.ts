// Doubles of an idempotency store: one with scripted faults, and two processes on the same records.

import type { Grant } from '../ports/grant.ts'
import type {
  BeginReply,
  BeginRequest,
  Fingerprints,
  Finish,
  FinishReply,
  Force,
  IdempotencyHooks,
  IdempotencyStore,
  Inspection,
  RecordPage,
  Settlement,
  SettleReply,
} from '../ports/idempotency-store.ts'

/** The fault of one call. `work` runs the call on the real store. */
export type Fault = (work: () => Promise<unknown>) => Promise<unknown>

export type IdempotencyOperation =
  | 'begin'
  | 'renew'
  | 'finish'
  | 'keepStep'
  | 'inspect'
  | 'list'
  | 'settle'
  | 'close'

/** Passes calls on to a store, unless a fault is set. Records the calls, without keys. */
export class FaultyIdempotency implements IdempotencyStore {
  readonly name = 'faulty'
  readonly calls: string[] = []
  readonly begins: BeginRequest[] = []
  /** The fault of every call without a fault of its own. */
  always: Fault | undefined
  isReceiving = true
  readonly #inner: IdempotencyStore
  readonly #faults = new Map<IdempotencyOperation, Fault[]>()
  #hooks: IdempotencyHooks | undefined

  constructor(inner: IdempotencyStore) {
    this.#inner = inner
  }

  /** Sets the fault of the next call of `operation` that has none yet. */
  next(operation: IdempotencyOperation, fault: Fault): this {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), fault])
    return this
  }

  /** Removes every fault that has not happened yet. */
  heal(): void {
    this.always = undefined
    this.#faults.clear()
  }

  /** The calls since the last call of this. */
  take(): string[] {
    return this.calls.splice(0)
  }

  /** Messages that the store's server would send. */
  get hooks(): IdempotencyHooks {
    if (this.#hooks === undefined) throw new Error('not attached')
    return this.#hooks
  }

  attach(hooks: IdempotencyHooks): void {
    this.#hooks = hooks
    this.#inner.attach(hooks)
  }

  begin(key: string, request: BeginRequest): Promise<BeginReply> {
    this.begins.push(request)
    const line = request.wait ? 'begin, wait' : 'begin'
    return this.#run('begin', line, async () => this.#inner.begin(key, request))
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#run('renew', `renew ${grants.length}`, () => this.#inner.renew(grants, leaseMs))
  }

  finish(grant: Grant, finish: Finish, fingerprints: Fingerprints): Promise<FinishReply> {
    const line = `finish ${finish.as}`
    return this.#run('finish', line, async () => this.#inner.finish(grant, finish, fingerprints))
  }

  keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'> {
    return this.#run('keepStep', `keepStep ${name}`, () => this.#inner.keepStep(grant, name, value))
  }

  inspect(key: string): Promise<Inspection | undefined> {
    return this.#run('inspect', 'inspect', () => this.#inner.inspect(key))
  }

  list(cursor: string, limit: number): Promise<RecordPage> {
    return this.#run('list', 'list', () => this.#inner.list(cursor, limit))
  }

  settle(key: string, settlement: Settlement, options: { force: Force }): Promise<SettleReply> {
    const line = `settle ${settlement.as}${options.force ? ', force' : ''}`
    return this.#run('settle', line, () => this.#inner.settle(key, settlement, options))
  }

  close(): Promise<void> {
    return this.#run('close', 'close', () => this.#inner.close())
  }

  #run<T>(operation: IdempotencyOperation, line: string, work: () => Promise<T>): Promise<T> {
    this.calls.push(line)
    const fault = this.#faults.get(operation)?.shift() ?? this.always
    return fault === undefined ? work() : (fault(work) as Promise<T>)
  }
}

/** Two processes with the same records. Both get wake-ups and operators' decisions. */
export function sharedIdempotency(inner: IdempotencyStore): () => IdempotencyStore {
  const hooks: IdempotencyHooks[] = []
  let open = 0
  // Sent on another connection than the replies, and after them.
  const tell = (how: (each: IdempotencyHooks) => void) => {
    setImmediate(() => {
      for (const each of hooks) how(each)
    })
  }
  return () => {
    open += 1
    return {
      name: 'shared',
      attach(its) {
        hooks.push(its)
        if (hooks.length > 1) return
        inner.attach({
          ...its,
          onWake: (key) => tell((each) => each.onWake(key)),
          onSettled: (key) => tell((each) => each.onSettled(key)),
        })
      },
      begin: (key, request) => inner.begin(key, request),
      renew: (grants, leaseMs) => inner.renew(grants, leaseMs),
      finish: (grant, finish, fingerprints) => inner.finish(grant, finish, fingerprints),
      keepStep: (grant, name, value) => inner.keepStep(grant, name, value),
      inspect: (key) => inner.inspect(key),
      list: (cursor, limit) => inner.list(cursor, limit),
      settle: (key, settlement, options) => inner.settle(key, settlement, options),
      async close() {
        open -= 1
        if (open === 0) await inner.close()
      },
    }
  }
}
