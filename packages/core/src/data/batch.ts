// One call of getOrSetMany. Each key is resolved by a `Call` of its own, as in `getOrSet`: it has
// its own flight, lease and waiters. The batch collects the keys that lead, and runs the factory
// once for all of them.

import { AsyncResource } from 'node:async_hooks'
import { countRead } from '../engine/lookup.ts'
import type { Caller, CallerBatch, FillResult, Resolution } from '../engine/types.ts'
import { manyFailed, show, valueError } from '../errors.ts'
import { freshCopy } from '../l1/purges.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { SharedSlot } from '../lease/slots.ts'
import { dataKey } from '../ports/key.ts'
import { together } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import { warnOnce } from '../warnings.ts'
import { type Begun, Call, failureOf, parseHeld, type ValueLead } from './call.ts'
import { type DataScope, DEFAULT_SKIP_MS } from './get-or-set-options.ts'
import { BatchContext, type ManyFactory, type Mark, readMany } from './many-context.ts'

/**
 * How long a late lead waits for others. After the death of a holder, the lookups of its keys are
 * spread over 40 ms.
 */
const COLLECT_MS = 50

/** A key that leads. */
interface Led<T, P> extends Begun<P> {
  readonly member: Member<T, P>
  readonly lead: ValueLead
}

/**
 * `waiting`: for a run that is not of this batch. `decided`: the key has its result, or leads.
 */
type Stage = 'looking-up' | 'waiting' | 'decided'

/** One key of a batch. */
class Member<T, P> extends Call<T, P> {
  override readonly batch: Batch<T, P>
  readonly name: string
  stage: Stage = 'looking-up'

  constructor(batch: Batch<T, P>, of: DataScope, name: string) {
    // A batch runs the factory, so this call has none.
    super(of, dataKey(of.keys.prefix + name))
    this.name = name
    this.batch = batch
  }

  override run(lead: ValueLead, where: 'here' | 'behind'): void {
    const { context, held, end } = this.begin(lead, where)
    this.batch.lead({ member: this, lead, context, held, end })
  }

  override answer(resolution: Resolution): void {
    super.answer(resolution)
    this.batch.enter(this, 'decided')
  }

  /** The batch has the context of the caller. */
  override captureContext(): void {}
}

/**
 * Begins an operation for each item, in as few commands as possible, and without a promise for
 * each. Resolves when each has called its `end`.
 */
export function gather<Item>(
  { records }: Pick<Runtime, 'records'>,
  items: readonly Item[],
  begin: (item: Item, end: () => void) => void,
): Promise<void> {
  let left = items.length
  return new Promise((resolve) => {
    if (left === 0) resolve()
    const end = (): void => {
      left -= 1
      if (left === 0) resolve()
    }
    together(records, () => {
      for (const item of items) begin(item, end)
    })
  })
}

/** One call of getOrSetMany. */
export class Batch<T, P> implements CallerBatch {
  readonly slots: SharedSlot
  /** Begin refreshes in the background. Undefined: the first lookups have been sent. */
  #steps: Array<() => void> | undefined = []
  readonly #of: DataScope
  readonly #names: readonly string[]
  readonly #factory: ManyFactory<T, P>
  readonly #context = new AsyncResource('StampedeGetOrSetMany')
  /** Numbers of keys by stage. */
  readonly #count: Record<Stage, number> = { 'looking-up': 0, waiting: 0, decided: 0 }
  #led: Led<T, P>[] = []
  /** True at first: the loop over all keys comes before the run. */
  #isScheduled = true
  #hasRun = false
  #collecting: Deadline | undefined
  #thrown: { readonly error: unknown } | undefined

  constructor(of: DataScope, names: readonly string[], factory: ManyFactory<T, P>) {
    this.#of = of
    this.#names = names
    this.#factory = factory
    this.slots = new SharedSlot(of.rt.originSlots)
  }

  async values(): Promise<Map<string, T>> {
    const { rt, keys } = this.#of
    const found = new Map<string, T>()
    const errors = new Map<string, unknown>()
    const members: Member<T, P>[] = []
    for (const name of this.#names) {
      const key = dataKey(keys.prefix + name)
      const held = freshCopy(rt, key, rt.clock.now())
      const parsed = held && parseHeld<T>(this.#of, key, held)
      if (held !== undefined && parsed !== undefined) {
        countRead(rt, key, { held, stale: false, from: 'l1' })
        if (lookupTracing.hasSubscribers) traceHit(key)
        found.set(name, parsed.value)
      } else members.push(new Member(this, this.#of, name))
    }
    this.#count['looking-up'] = members.length
    queueMicrotask(() => this.#endFirstTurn())
    await gather(rt, members, (member, end) => {
      const fail = (error: unknown): void => {
        errors.set(member.name, error)
        end()
      }
      const give = (value: T | Promise<T>): void => {
        if (value instanceof Promise) return void value.then(give, fail)
        if (value !== undefined) found.set(member.name, value)
        end()
      }
      member.start(give, fail)
    })
    return this.#result(found, errors)
  }

  #endFirstTurn(): void {
    const steps = this.#steps ?? []
    this.#steps = undefined
    together(this.#of.rt.records, () => {
      for (const step of steps) step()
    })
    this.#isScheduled = false
    this.#runSoon()
  }

  #result(found: Map<string, T>, errors: ReadonlyMap<string, unknown>): Map<string, T> {
    const [values, failed] = [new Map<string, T>(), new Map<string, unknown>()]
    for (const name of this.#names) {
      if (found.has(name)) values.set(name, found.get(name) as T)
      else if (errors.has(name)) failed.set(name, errors.get(name))
    }
    if (failed.size === 0) return values
    const thrown = this.#thrown
    if (thrown && [...failed.values()].includes(thrown.error)) throw thrown.error
    throw manyFailed('getOrSetMany', values, failed)
  }

  /** Calls `step` with those of the other keys. */
  later(step: () => void): void {
    if (this.#steps === undefined) queueMicrotask(step)
    else this.#steps.push(step)
  }

  lead(led: Led<T, P>): void {
    this.#led.push(led)
    this.enter(led.member, 'decided')
  }

  waits(caller: Caller): void {
    const member = caller as Member<T, P>
    if (member.stage === 'looking-up') this.enter(member, 'waiting')
  }

  enter(member: Member<T, P>, stage: Stage): void {
    this.#count[member.stage] -= 1
    this.#count[stage] += 1
    member.stage = stage
    this.#runSoon()
  }

  /** In a microtask, because the replies to several lookups come one after another. */
  #runSoon(): void {
    if (this.#isScheduled || this.#led.length === 0) return
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.#runIfReady()
    })
  }

  /**
   * The first run never waits for runs of others: two calls could otherwise wait for each other. A
   * later run waits a moment for other keys whose holder has failed as well.
   */
  #runIfReady(): void {
    if (this.#led.length === 0 || this.#count['looking-up'] > 0) return
    if (!this.#hasRun || this.#count.waiting === 0) return this.#run()
    const { clock, deadlines } = this.#of.rt
    this.#collecting ??= deadlines.set(() => this.#run(), clock.now() + COLLECT_MS)
  }

  #run(): void {
    this.#of.rt.deadlines.end(this.#collecting)
    this.#collecting = undefined
    this.#hasRun = true
    const all = this.#led
    this.#led = []
    const context = new BatchContext<P>(all)
    const load = async () => readMany(await this.#factory(context.keys, context))
    this.#context.runInAsyncScope(load).then(
      (many) => {
        const { prefix } = this.#of.keys
        if ([...many.keys()].some((name) => !context.has(name)))
          warnOnce('STAMPEDE_UNASKED_KEY', UNASKED.replace('NAME', show(prefix.slice(0, -1))))
        this.#end(all, (led) => resultOf(led, context.marks.get(led.member.name), many))
      },
      (error) => {
        this.#thrown = { error }
        this.#end(all, () => failureOf(error))
      },
    )
  }

  #end(all: readonly Led<T, P>[], result: (led: Led<T, P>) => FillResult): void {
    together(this.#of.rt.records, () => {
      for (const led of all) led.end(result(led))
    })
  }
}

const UNASKED =
  'getOrSetMany: the factory of cache NAME returned keys that it did not get; they are not stored. ' +
  'Return only keys of its first argument'

/** Without a value, nothing is stored. Other callers of the key do not wait for one another. */
const MISSING: FillResult = { type: 'skipped', entry: undefined, skipMs: DEFAULT_SKIP_MS }

function resultOf<T, P>(
  { member, lead, held }: Led<T, P>,
  mark: Mark | undefined,
  many: ReadonlyMap<string, unknown>,
): FillResult {
  try {
    const returned = many.get(member.name)
    if (returned instanceof Promise) throw promiseError(member.where, returned)
    const value = mark === undefined ? returned : mark(returned)
    return value === undefined ? MISSING : member.resultOf(value, lead, held)
  } catch (error) {
    return failureOf(error)
  }
}

function promiseError(where: string, promise: Promise<unknown>): Error {
  promise.catch(() => {})
  const problem = 'the factory returned a promise for the key; await the values before you return'
  return valueError(where, problem)
}
