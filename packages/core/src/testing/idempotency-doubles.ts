// Doubles of an idempotency store: one that fails as it is told to, and two processes on the same records.

import type { Grant } from '../ports/grant.ts'
import type {
  BeginReply,
  BeginRequest,
  Fingerprints,
  Finish,
  FinishReply,
  IdempotencyHooks,
  IdempotencyStore,
  Inspection,
  Settlement,
  SettleReply,
} from '../ports/idempotency-store.ts'

/** What becomes of one call; `work` does it on the store behind. */
export type Fault = (work: () => Promise<unknown>) => Promise<unknown>

export type IdempotencyOperation =
  | 'begin'
  | 'renew'
  | 'finish'
  | 'keepStep'
  | 'inspect'
  | 'settle'
  | 'close'

/** Passes calls on to a store, as long as it is not told otherwise. Records what was asked of it, without keys. */
export class FaultyIdempotency implements IdempotencyStore {
  readonly name = 'faulty'
  readonly calls: string[] = []
  readonly begins: BeginRequest[] = []
  /** Holds for every operation that has no fault of its own. */
  always: Fault | undefined
  hearing = true
  readonly #inner: IdempotencyStore
  readonly #faults = new Map<IdempotencyOperation, Fault[]>()
  #hooks: IdempotencyHooks | undefined

  constructor(inner: IdempotencyStore) {
    this.#inner = inner
  }

  /** For the next call of `operation` that has no fault yet. */
  next(operation: IdempotencyOperation, fault: Fault): this {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), fault])
    return this
  }

  /** Every fault that has not happened yet is off. */
  heal(): void {
    this.always = undefined
    this.#faults.clear()
  }

  /** The calls since the last time. */
  take(): string[] {
    return this.calls.splice(0)
  }

  /** What this store would be told by its server. */
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
    return this.#run('begin', line, () => this.#inner.begin(key, request))
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#run('renew', `renew ${grants.length}`, () => this.#inner.renew(grants, leaseMs))
  }

  finish(grant: Grant, finish: Finish, fingerprints: Fingerprints): Promise<FinishReply> {
    const line = `finish ${finish.as}`
    return this.#run('finish', line, () => this.#inner.finish(grant, finish, fingerprints))
  }

  keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'> {
    return this.#run('keepStep', `keepStep ${name}`, () => this.#inner.keepStep(grant, name, value))
  }

  inspect(key: string): Promise<Inspection | undefined> {
    return this.#run('inspect', 'inspect', () => this.#inner.inspect(key))
  }

  settle(key: string, settlement: Settlement, options: { force: boolean }): Promise<SettleReply> {
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

/** What two processes see of the same records: both are woken, and both hear of an operator's word. */
export function sharedIdempotency(inner: IdempotencyStore): () => IdempotencyStore {
  const hooks: IdempotencyHooks[] = []
  let open = 0
  // On another connection than the replies, and after them.
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
      settle: (key, settlement, options) => inner.settle(key, settlement, options),
      async close() {
        open -= 1
        if (open === 0) await inner.close()
      },
    }
  }
}
