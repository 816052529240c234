// One call of getOrSetMany. Each key is resolved by a `Call` of its own, as in `getOrSet`: it has
// its own flight, lease and waiters. The batch collects the keys that lead, and runs the factory
// once for all of them.

import { AsyncResource } from 'node:async_hooks'
import { countRead } from '../engine/lookup.ts'
import type { FillResult, Lead, Resolution } from '../engine/types.ts'
import { manyFailed, show, valueError } from '../errors.ts'
import { freshCopy } from '../l1/purges.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { SharedSlot, type Slots } from '../lease/slots.ts'
import { dataKey } from '../ports/key.ts'
import { together } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import { warnOnce } from '../warnings.ts'
import { type Begun, Call, failureOf, parseHeld } from './call.ts'
import { DEFAULT_SKIP_MS, type Plan } from './get-or-set-options.ts'
import { BatchContext, type ManyFactory, type Mark, readMany } from './many-context.ts'
import type { Serializer } from './value.ts'

/**
 * How long a late lead waits for others. After the death of a holder, the lookups of its keys are
 * spread over 40 ms.
 */
const COLLECT_MS = 50

/** The cache to which the keys of a call belong. */
export interface ManyOf {
  readonly rt: Runtime
  /** The name of the cache and a colon. */
  readonly prefix: string
  readonly plan: Plan
  readonly serializer: Serializer | undefined
  /** Subjects of each value, in addition to its tags. */
  readonly subjects: readonly string[]
}

/** Begins an operation for each item, in as few commands as possible. */
export function begin<I, R>(
  rt: Runtime,
  items: readonly I[],
  operation: (item: I) => Promise<R>,
): Promise<PromiseSettledResult<R>[]> {
  const begun: Promise<R>[] = []
  together(rt.records, () => {
    for (const item of items) begun.push(operation(item))
  })
  return Promise.allSettled(begun)
}

/** A key that leads. */
interface Led<T, P> extends Begun<P> {
  readonly member: Member<T, P>
  readonly lead: Lead
}

/** One key of a batch. */
class Member<T, P> extends Call<T, P> {
  override readonly slots: Slots
  readonly name: string
  readonly #batch: Batch<T, P>

  constructor(batch: Batch<T, P>, of: ManyOf, name: string) {
    const { rt, prefix, plan, serializer, subjects } = of
    // A batch runs the factory, so this call has none.
    super(rt, dataKey(prefix + name), undefined, plan, serializer, subjects)
    this.name = name
    this.slots = batch.slot
    this.#batch = batch
  }

  override run(lead: Lead, where: 'here' | 'behind'): void {
    this.#batch.lead({ ...this.begin(lead, where), member: this, lead })
  }

  override answer(resolution: Resolution): void {
    super.answer(resolution)
    this.#batch.decided(this)
  }

  onWait(): void {
    this.#batch.waits(this)
  }

  later(step: () => void): void {
    this.#batch.later(step)
  }

  /** The batch has the context of the caller. */
  override captureContext(): void {}
}

/** One call of getOrSetMany. */
export class Batch<T, P> {
  readonly slot: SharedSlot
  /** Begin refreshes in the background. Undefined: the first lookups have been sent. */
  #steps: Array<() => void> | undefined = []
  readonly #of: ManyOf
  readonly #names: readonly string[]
  readonly #factory: ManyFactory<T, P>
  readonly #context = new AsyncResource('StampedeGetOrSetMany')
  /** The keys whose first lookup has not ended. */
  readonly #lookingUp = new Set<Member<T, P>>()
  /** The keys that wait for a run that is not of this batch. */
  readonly #waiting = new Set<Member<T, P>>()
  #led: Led<T, P>[] = []
  /** True at first: the loop over all keys comes before the run. */
  #isScheduled = true
  #hasRun = false
  #collecting: Deadline | undefined
  #thrown: { readonly error: unknown } | undefined

  constructor(of: ManyOf, names: readonly string[], factory: ManyFactory<T, P>) {
    this.#of = of
    this.#names = names
    this.#factory = factory
    this.slot = new SharedSlot(of.rt.originSlots)
  }

  async values(): Promise<Map<string, T>> {
    const { rt, prefix, serializer } = this.#of
    const found = new Map<string, T>()
    const errors = new Map<string, unknown>()
    const members: Member<T, P>[] = []
    for (const name of this.#names) {
      const key = dataKey(prefix + name)
      const held = freshCopy(rt, key, rt.clock.now())
      const parsed = held && parseHeld<T>(rt, key, held, serializer)
      if (held !== undefined && parsed !== undefined) {
        countRead(rt, key, { held, stale: false, from: 'l1' })
        if (lookupTracing.hasSubscribers) traceHit(key)
        found.set(name, parsed.value)
      } else members.push(new Member(this, this.#of, name))
    }
    for (const member of members) this.#lookingUp.add(member)
    const begun = begin(rt, members, (member) => member.value())
    queueMicrotask(() => {
      const steps = this.#steps ?? []
      this.#steps = undefined
      together(rt.records, () => {
        for (const step of steps) step()
      })
      this.#isScheduled = false
      this.#runSoon()
    })
    const results = await begun
    for (const [i, { name }] of members.entries()) {
      const result = results[i]
      if (result?.status !== 'fulfilled') errors.set(name, result?.reason)
      else if (result.value !== undefined) found.set(name, result.value)
    }
    return this.#result(found, errors)
  }

  #result(found: Map<string, T>, errors: ReadonlyMap<string, unknown>): Map<string, T> {
    const values = new Map<string, T>()
    for (const name of this.#names) if (found.has(name)) values.set(name, found.get(name) as T)
    if (errors.size === 0) return values
    const thrown = this.#thrown
    if (thrown && [...errors.values()].includes(thrown.error)) throw thrown.error
    throw manyFailed('getOrSetMany', values, errors)
  }

  /** Calls `step` with those of the other keys. */
  later(step: () => void): void {
    if (this.#steps === undefined) queueMicrotask(step)
    else this.#steps.push(step)
  }

  lead(led: Led<T, P>): void {
    this.#led.push(led)
    this.decided(led.member)
  }

  /** The key has its result, or leads. */
  decided(member: Member<T, P>): void {
    this.#waiting.delete(member)
    this.#lookingUp.delete(member)
    this.#runSoon()
  }

  waits(member: Member<T, P>): void {
    if (this.#lookingUp.delete(member)) this.#waiting.add(member)
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
    if (this.#led.length === 0 || this.#lookingUp.size > 0) return
    if (!this.#hasRun || this.#waiting.size === 0) return this.#run()
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
        const { prefix } = this.#of
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
