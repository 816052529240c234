// createStampede: one cache for one process, wired to a store. Everything else is given it.

import { createDataCache, type DataCache, type DataCacheOptions } from './data/data-cache.ts'
import type { Factory } from './data/factory-context.ts'
import { getOrSet } from './data/get-or-set.ts'
import { type GetOrSetOptions, readPlan } from './data/get-or-set-options.ts'
import type { Stored } from './data/stored.ts'
import { closedError, optionError } from './errors.ts'
import {
  checkListener,
  Events,
  type Listener,
  type StampedeEvent,
  type StampedeEventType,
} from './events.ts'
import { onForget, onGap, onLostStore, onMark, onPurge, onWake } from './flight/hints.ts'
import { Places } from './flight/origin-slots.ts'
import type { Runtime } from './flight/runtime.ts'
import type { Attempt } from './idempotency/attempt.ts'
import {
  closeIdempotency,
  createIdempotencyRuntime,
  type IdempotencyConfig,
  type IdempotencyRuntime,
} from './idempotency/idempotency-runtime.ts'
import { createOperator, type IdempotencyOperator } from './idempotency/operator.ts'
import { type IdempotentOptions, runIdempotent } from './idempotency/run-idempotent.ts'
import { L1 } from './l1/l1.ts'
import { PurgeMarks } from './l1/purge-marks.ts'
import { LeaseKeeper } from './lease/lease-keeper.ts'
import { localIdempotency } from './memory/memory-idempotency.ts'
import { localStore } from './memory/memory-store.ts'
import { type PurgeOptions, type PurgeTarget, purge } from './purge.ts'
import { readStampedeOptions, type StampedeOptions } from './stampede-options.ts'

export interface StampedeStats {
  readonly hits: { readonly l1: number; readonly l2: number }
  readonly fills: {
    readonly started: number
    readonly committed: number
    readonly fenced: number
    readonly passed: number
    readonly failed: number
  }
  /** How often a request or call joined what another had begun in this process: a look-up, or a fill. */
  readonly collapsed: number
  /** Waits for a fill of another process, once for each key however many wait here; `timedOut`: callers whose `waitMs` was spent. */
  readonly waits: { readonly started: number; readonly timedOut: number }
  /** Runs of the origin that no lease stands for, and keys that queue for one. */
  readonly unleased: { readonly running: number; readonly queued: number }
  /** Answered with what is stale, since what was waited for was late. */
  readonly staleServed: number
  readonly storeFailures: number
  readonly l1: { readonly entries: number; readonly bytes: number }
  /** Keys being resolved now, and leases held now. */
  readonly active: { readonly flights: number; readonly leases: number }
  /** Handlers at work under an idempotency key, and finished ones the store could not be told of yet. */
  readonly idempotency: { readonly running: number; readonly unstored: number }
}

export interface Stampede {
  /**
   * The value of `key`: from L1, from the store, or made by `factory`, once in the whole fleet.
   * Rejects with the factory's own error, or with a `StampedeError`.
   */
  getOrSet<T, P = T>(
    key: string,
    factory: Factory<T, Stored<P>>,
    options: GetOrSetOptions<T>,
  ): Promise<Stored<T>>
  /**
   * A cache of data under a name of its own: its keys are `name:key`, and `defaults` are checked once. Throws `ERR_STAMPEDE_OPTION`.
   */
  cache<S extends DataCacheOptions>(name: string, defaults: S): DataCache<S>
  /**
   * Makes what is stored void, and every fill in flight, in the whole fleet: of a key, of a path, of a route, under a tag, or all.
   * `soft` makes it stale instead: it is refreshed by whoever asks, and kept for stale-while-revalidate and for errors. Rejects with
   * `ERR_STAMPEDE_STORE_UNAVAILABLE` when the store could not be told. Once it has resolved, later requests get nothing made earlier from
   * this process, and from no other process of the fleet for longer than 5 seconds.
   */
  purge(target: PurgeTarget, options?: PurgeOptions): Promise<void>
  /**
   * Runs `work` once for `key` in the whole fleet, and remembers its result: for jobs that are delivered twice. Rejects with what
   * `work` threw (then it may be run again), or with a `StampedeError`: in progress, another input, uncertain, not retained.
   */
  idempotent<T>(
    key: string,
    work: (attempt: Attempt) => T | Promise<T>,
    options?: IdempotentOptions,
  ): Promise<T>
  /** For operators: what is known of an idempotency key, and the last word on it. */
  readonly idempotency: IdempotencyOperator
  stats(): StampedeStats
  /** Calls `listener` for each event of this type, or of every type with `*`. Returns how to stop. */
  on<T extends StampedeEventType>(type: T, listener: Listener<T>): () => void
  on(type: '*', listener: (event: StampedeEvent) => void): () => void
  /** Ends background work, leases and connections. Later calls reject, later requests bypass the cache. */
  close(): Promise<void>
}

/** Creates a cache. Throws `ERR_STAMPEDE_OPTION` on an option it does not know or cannot use. */
export function createStampede(options?: StampedeOptions): Stampede {
  const rt = createRuntime(options)
  let closing: Promise<void> | undefined
  const stampede: Stampede = {
    getOrSet<T, P>(key: string, factory: Factory<T, P>, getOptions: GetOrSetOptions<T>) {
      try {
        if (rt.closed) throw closedError()
        return getOrSet(rt, key, factory, readPlan(getOptions)) as Promise<Stored<T>>
      } catch (error) {
        return Promise.reject(error)
      }
    },
    cache: (name, defaults) => createDataCache(rt, name, defaults),
    async purge(target, purgeOptions) {
      if (rt.closed) throw closedError()
      return purge(rt, target, purgeOptions)
    },
    idempotent: async (key, work, jobOptions) =>
      runIdempotent(idempotencyOf(stampede), key, work, jobOptions),
    idempotency: createOperator(() => idempotencyOf(stampede)),
    stats: () => stats(rt),
    on: (type: string, listener: (event: never) => void) => {
      checkListener(type, listener)
      return rt.events.on(type, listener as (event: StampedeEvent) => void)
    },
    close: () => {
      closing ??= close(rt)
      return closing
    },
  }
  runtimes.set(stampede, rt)
  return stampede
}

const runtimes = new WeakMap<Stampede, Runtime>()
const idempotencies = new WeakMap<Runtime, IdempotencyRuntime>()
const idempotencyConfigs = new WeakMap<Runtime, IdempotencyConfig>()

/** For the middlewares of this package: the stages behind the public face. */
export function runtimeOf(stampede: unknown, option = 'stampedeCache'): Runtime {
  const rt = runtimes.get(stampede as Stampede)
  if (rt !== undefined) return rt
  throw optionError(`${option}.stampede`, stampede, 'pass what createStampede() returned')
}

export function isStampede(value: unknown): value is Stampede {
  return runtimes.has(value as Stampede)
}

/** The part that is about idempotency keys, made when it is first used: most applications have no need of it. */
export function idempotencyOf(stampede: unknown): IdempotencyRuntime {
  const rt = runtimeOf(stampede, 'idempotency')
  const known = idempotencies.get(rt)
  if (known !== undefined) return known
  const config = idempotencyConfigs.get(rt)
  if (rt.closed || config === undefined) throw closedError()
  const { idempotency } = rt.store
  const made = createIdempotencyRuntime(idempotency, config, rt, () =>
    localIdempotency(idempotency),
  )
  idempotencies.set(rt, made)
  return made
}

function createRuntime(options: StampedeOptions | undefined): Runtime {
  const { idempotency, ...config } = readStampedeOptions(options)
  const { store, clock } = config
  const events = new Events()
  const local = localStore(store)
  const l1 = new L1(config.l1, clock, local?.slots)
  const rt: Runtime = {
    ...config,
    events,
    l1,
    local: l1.isOn ? local : undefined,
    marks: new PurgeMarks(),
    keeper: new LeaseKeeper(store, clock),
    flights: new Map(),
    places: new Places(config.originConcurrency),
    closed: false,
  }
  idempotencyConfigs.set(rt, idempotency)
  store.attach({
    clock,
    onWake: (key) => onWake(rt, key),
    onPurge: (key, { soft }) => onPurge(rt, key, soft),
    onMark: (mark) => onMark(rt, mark),
    onGap: () => onGap(rt),
    onForget: (floor) => onForget(rt, floor),
    onLost: () => onLostStore(rt),
    onError: (operation, error) => events.emit({ type: 'store.failed', key: '', operation, error }),
  })
  return rt
}

function stats(rt: Runtime): StampedeStats {
  const { events, l1, flights, keeper } = rt
  return {
    hits: { l1: events.hits.l1, l2: events.hits.l2 },
    fills: {
      started: events.count('fill.started'),
      committed: events.count('fill.committed'),
      fenced: events.count('fill.fenced'),
      passed: events.count('fill.passed'),
      failed: events.count('fill.failed'),
    },
    collapsed: events.collapsed,
    waits: { started: events.count('wait.started'), timedOut: events.count('wait.timed-out') },
    unleased: { running: rt.places.taken, queued: rt.places.queued },
    staleServed: events.count('stale.served'),
    storeFailures: events.count('store.failed'),
    l1: l1.size,
    active: { flights: flights.size, leases: keeper.size },
    idempotency: {
      running: idempotencies.get(rt)?.running.size ?? 0,
      unstored: idempotencies.get(rt)?.unstored.size ?? 0,
    },
  }
}

/** How long close() waits for fills in flight before it gives their leases back. */
const DRAIN_MS = 2_000

async function close(rt: Runtime): Promise<void> {
  rt.closed = true
  // Ours do not keep the process alive, but this must be seen through.
  const alive = setInterval(() => {}, DRAIN_MS)
  try {
    const idempotency = idempotencies.get(rt)
    const drained = idempotency && closeIdempotency(idempotency)
    const deadline = rt.clock.now() + DRAIN_MS
    while (rt.flights.size > 0 && rt.clock.now() < deadline) {
      await new Promise<void>((resolve) => rt.clock.setTimer(10, resolve))
    }
    const leases = rt.keeper.grants()
    rt.keeper.stop()
    await Promise.allSettled(leases.map((grant) => rt.store.fail(grant, undefined, 0)))
    for (const flight of rt.flights.values())
      flight.waiters.settleAll(rt, { type: 'pass', reason: 'closed' })
    await drained
    await rt.store.close()
    rt.l1.flush()
  } finally {
    clearInterval(alive)
  }
}
