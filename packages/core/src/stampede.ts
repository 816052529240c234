// createStampede: the cache of one process, connected to a store.

import { createDataCache, type DataCache, type DataCacheOptions } from './data/data-cache.ts'
import { getOrSet, KEYS } from './data/get-or-set.ts'
import { type Factory, type GetOrSetOptions, readPlan } from './data/get-or-set-options.ts'
import type { Stored } from './data/stored.ts'
import { onForget, onGap, onLostStore, onMark, onPurge, onWake } from './engine/messages.ts'
import { Counts } from './entry/counts.ts'
import { closedError, optionError, otherCopy } from './errors.ts'
import {
  EVENT_TYPES,
  Events,
  type Listener,
  type StampedeEvent,
  type StampedeEventType,
} from './events.ts'
import type { Attempt } from './idempotency/attempt.ts'
import { createOperator, type IdempotencyOperator } from './idempotency/operator.ts'
import type { TxOf } from './idempotency/options.ts'
import { type IdempotentOptions, runIdempotent } from './idempotency/run-idempotent.ts'
import {
  closeIdempotency,
  createIdempotencyRuntime,
  type IdempotencyConfig,
  type IdempotencyRuntime,
  type IdempotencyStoreOwner,
} from './idempotency/runtime.ts'
import { L1 } from './l1/l1.ts'
import { PurgeMarks } from './l1/purges.ts'
import { Deadlines } from './lease/deadlines.ts'
import { LeaseKeeper, type Renewer } from './lease/lease-keeper.ts'
import { OriginSlots } from './lease/slots.ts'
import { withTimeBudget } from './lease/time-budget.ts'
import { encodesLater } from './memory/memory-idempotency.ts'
import { showEntries } from './memory/memory-store.ts'
import { Fences } from './ports/grant.ts'
import { together } from './ports/store.ts'
import { type PurgeOptions, type PurgeTarget, purge } from './purge.ts'
import type { Runtime } from './runtime.ts'
import { hasRecords, readStampedeOptions, type StampedeOptions } from './stampede-options.ts'
import { type StampedeStats, statsOf } from './stats.ts'
import { warnOnce } from './warnings.ts'

/** A cache with idempotency keys, for one process. */
export interface Stampede {
  /**
   * Returns the value of `key` from memory or the store. On a miss, one process calls `factory` and
   * all processes get its value. Rejects with the error of `factory` or with a `StampedeError`.
   */
  getOrSet<T, P = T>(
    key: string,
    factory: Factory<T, Stored<P>>,
    options: GetOrSetOptions<T>,
  ): Promise<Stored<T>>
  /**
   * Creates a data cache whose keys are `name:key`. `defaults` are options for all its calls.
   * Throws `ERR_STAMPEDE_OPTION`.
   */
  cache<S extends DataCacheOptions>(name: string, defaults: S): DataCache<S>
  /**
   * Purges the entries of a key, path, route, tag or cache, or all entries, in all processes.
   * Results of running fills are not stored either. With `soft`, the entries become stale instead:
   * the next request refreshes them, and stale-while-revalidate and stale-if-error still apply.
   *
   * After the promise resolves, this process serves no purged entry. Another process may serve one
   * for at most 5 s. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE` if the store is unavailable.
   */
  purge(target: PurgeTarget, options?: PurgeOptions): Promise<void>
  /**
   * Runs `work` for `key` in one process and stores its result, for jobs that may be delivered
   * twice. A repeat gets the stored result. Rejects with the error of `work`, after which `work`
   * may run again. With `transaction`, `work` runs again, at most 3 times, if the database cannot
   * serialize its transaction or ends a deadlock. Other errors have the code
   * `ERR_STAMPEDE_IN_PROGRESS`, `ERR_STAMPEDE_KEY_REUSED`, `ERR_STAMPEDE_UNCERTAIN`,
   * `ERR_STAMPEDE_NOT_RETAINED`, `ERR_STAMPEDE_TRANSACTION_LOST` or
   * `ERR_STAMPEDE_STORE_UNAVAILABLE`.
   */
  idempotent<T, const Transaction extends IdempotentOptions['transaction'] = undefined>(
    key: string,
    work: (attempt: Attempt<TxOf<Transaction>>) => T | Promise<T>,
    options?: IdempotentOptions<Transaction>,
  ): Promise<T>
  /** Inspects and settles idempotency keys, for operators. */
  readonly idempotency: IdempotencyOperator
  /** Counters and current sizes. */
  stats(): StampedeStats
  /**
   * Calls `listener` for each event of a type, or for all events with `*`. Returns a function that
   * removes the listener. Throws `ERR_STAMPEDE_OPTION` for an unknown type.
   */
  on<T extends StampedeEventType>(type: T, listener: Listener<T>): () => void
  on(type: '*', listener: (event: StampedeEvent) => void): () => void
  /**
   * Waits at most 2 s for running fills, then ends leases and connections. A fill that goes on
   * still gives its result to its waiters. Later calls reject with `ERR_STAMPEDE_CLOSED`. Later
   * requests bypass the cache.
   */
  close(): Promise<void>
}

/** Creates a cache. Throws `ERR_STAMPEDE_OPTION` for an unknown or invalid option. */
export function createStampede(options?: StampedeOptions): Stampede {
  const rt = createRuntime(options)
  let closing: Promise<void> | undefined
  const stampede: Stampede = {
    getOrSet<T, P>(key: string, factory: Factory<T, P>, getOptions: GetOrSetOptions<T>) {
      try {
        if (rt.closed) throw closedError()
        const of = { rt, plan: readPlan(getOptions), serializer: undefined, keys: KEYS }
        return getOrSet(of, key, factory) as Promise<Stored<T>>
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
    stats: () => statsOf(rt, idempotencies.get(rt)),
    on: (type: string, listener: (event: never) => void) =>
      rt.events.onChecked(EVENT_TYPES, type, listener),
    close: () => {
      closing ??= close(rt)
      return closing
    },
  }
  runtimes.set(stampede, rt)
  Object.defineProperty(stampede, CREATOR, { value: '@stampede/core' })
  return stampede
}

/** A property of each Stampede. Every installed copy of this package knows the symbol. */
const CREATOR = Symbol.for('@stampede/core:creator')

const runtimes = new WeakMap<Stampede, Runtime>()
const idempotencies = new WeakMap<Runtime, IdempotencyRuntime>()
const idempotencyConfigs = new WeakMap<Runtime, IdempotencyConfig>()

/** The internal state of a Stampede, for the middlewares of this package. */
export function runtimeOf(stampede: unknown, option = 'stampedeCache'): Runtime {
  const rt = runtimes.get(stampede as Stampede)
  if (rt !== undefined) return rt
  if (Object(stampede)[CREATOR] !== undefined) throw otherCopy(`${option}.stampede`)
  throw optionError(`${option}.stampede`, stampede, 'pass what createStampede() returned')
}

export function isStampede(value: unknown): value is Stampede {
  return runtimes.has(value as Stampede)
}

/**
 * The state of idempotency keys. It is created on first use, since most applications do not use
 * them.
 */
export function idempotencyOf(stampede: unknown): IdempotencyRuntime {
  const rt = runtimeOf(stampede, 'idempotency')
  const known = idempotencies.get(rt)
  if (known !== undefined) return known
  const config = idempotencyConfigs.get(rt)
  if (rt.closed || config === undefined) throw closedError()
  const { idempotency, hasTimeBudget }: IdempotencyStoreOwner = config.store ?? rt.store
  const bounded = hasTimeBudget ? idempotency : withTimeBudget(idempotency, rt.clock)
  const created = createIdempotencyRuntime(bounded, config, rt, encodesLater(idempotency))
  idempotencies.set(rt, created)
  return created
}

function createRuntime(options: StampedeOptions | undefined): Runtime {
  const { idempotency, ...config } = readStampedeOptions(options)
  const { clock } = config
  const { store: given } = config
  const store = given.hasTimeBudget ? given : withTimeBudget(given, clock)
  const records = hasRecords(store) ? store : undefined
  const events = new Events()
  const l1 = new L1(config.l1, clock, records === undefined)
  showEntries(given, l1)
  const deadlines = new Deadlines(clock, (run) => together(records, run))
  const rt: Runtime = {
    ...config,
    store,
    events,
    counts: new Counts(),
    l1,
    records,
    fences: new Fences(clock),
    marks: new PurgeMarks(),
    keeper: new LeaseKeeper(records ?? NO_RENEWAL, clock, deadlines),
    deadlines,
    flights: new Map(),
    originSlots: new OriginSlots(config.originConcurrency),
    seenDigests: new Set(),
    largePaths: new Map(),
    passMs: 10_000,
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
  countOpened()
  return rt
}

/** Without a store that processes share, no fill has a lease. */
const NO_RENEWAL: Renewer = { renew: async () => [] }

/** Number of Stampedes in this process that are not closed. */
let open = 0
/** More of them are a sign that a request handler creates one for each request. */
const MOST_OPEN = 10
const TOO_MANY =
  `more than ${MOST_OPEN} Stampedes are open in this process, each with its own entries, timers and ` +
  'connections. Call createStampede() once, when the app starts, not in a request handler, and pass ' +
  'it to each middleware: stampedeCache({ stampede, ttlMs: 10_000 }). Close those you no longer use.'

function countOpened(): void {
  open += 1
  // A test may create one for each case, without closing it.
  if (open > MOST_OPEN && process.env.NODE_ENV !== 'test') warnOnce('STAMPEDE_MANY', TOO_MANY)
}

/** How long `close()` waits for running fills before it gives their leases back. */
const DRAIN_MS = 2_000

async function close(rt: Runtime): Promise<void> {
  rt.closed = true
  open -= 1
  // The timers of `rt.clock` do not keep the process alive. This one does, so that close()
  // completes.
  const keepAlive = setInterval(() => {}, DRAIN_MS)
  try {
    const idempotency = idempotencies.get(rt)
    const drained = idempotency && closeIdempotency(idempotency)
    const deadline = rt.clock.now() + DRAIN_MS
    while (rt.flights.size > 0 && rt.clock.now() < deadline) {
      await new Promise<void>((resolve) => rt.clock.setTimer(10, resolve))
    }
    const leases = rt.keeper.grants()
    rt.keeper.stop()
    await Promise.allSettled(leases.map((grant) => rt.records?.fail(grant, undefined, 0)))
    await drained
    await rt.store.close()
  } finally {
    clearInterval(keepAlive)
  }
}
