// Tracing channels: the start and the end of each operation, for tracers. Without a subscriber they
// create no object, promise or closure, so each call site checks `hasSubscribers` first.

import { AsyncResource } from 'node:async_hooks'
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import { shownKey } from './ports/key.ts'

/** Facts of one operation. Those known at its end are set before `asyncEnd`, or before `end`. */
export interface Traced {
  /** The key as the user wrote it, as in events. */
  readonly key: string
  /** Name of the record in the store. */
  readonly internalKey: string
  /** Set before `end` if the operation goes on, so that `asyncEnd` follows. */
  isAsync?: true
  /** Set before the channel `error` gets the context. */
  error?: unknown
}

/** How a lookup or a wait ended for one request or call. The set of values is fixed. */
export type LookupOutcome =
  /** A fresh entry from memory or the store. */
  | 'hit'
  /** A stale entry. */
  | 'stale'
  /** This request or call ran the handler or factory itself, for all waiters. */
  | 'led'
  /** The result of a run of another request in this process. */
  | 'collapsed'
  /** There is no result to share, so the request runs the handler itself. */
  | 'passed'
  /** The failure of another run. */
  | 'failed'
  | 'timed-out'
  /** The client left. */
  | 'gone'
  /** There is no entry, and the request may not fill the key, such as HEAD. */
  | 'absent'

/** One request or call, from its lookup in memory to its entry, or to the reason for none. */
export interface LookupTrace extends Traced {
  outcome?: LookupOutcome
  /** The source of a `hit` or `stale` entry. */
  tier?: 'l1' | 'l2'
  /** The detail of Cache-Status, if the outcome is `passed`. */
  reason?: string
  /** Status of the response, or of the shared failure. */
  status?: number
}

/** One run of the handler or factory, and the commit of its result. */
export interface FillTrace extends Traced {
  /** In the background: the run has no client or caller of its own. */
  readonly behind: boolean
  /** Undefined for a run without a lease. */
  readonly fence: bigint | undefined
  /**
   * The end of the event `fill.*`. `local`: the result is only in the memory of this process.
   */
  outcome?: 'committed' | 'fenced' | 'passed' | 'skipped' | 'failed' | 'abandoned' | 'local'
  /** Why the result cannot be shared, if the outcome is `passed`. */
  reason?: string
  status?: number
}

/** One request or call that waits for a run of another request or of another process. */
export interface WaitTrace extends Traced {
  outcome?: LookupOutcome
  /** The newest run of this process for the key, if there was one during the wait. */
  fill?: FillTrace
}

/** One refresh in the background of responses that were already sent. It contains a fill. */
export interface RefreshTrace extends Traced {
  outcome?: FillTrace['outcome']
}

/** One call that acquires a lock. */
export interface LockTrace extends Traced {
  outcome?: 'acquired' | 'busy' | 'timed-out' | 'aborted' | 'unavailable'
  /** Whether another owner held the lock at first. */
  contended?: boolean
  fence?: bigint
}

/** One request or job with an idempotency key, from its claim of the key to its end. */
export interface IdempotencyTrace extends Traced {
  readonly kind: 'http' | 'job'
  /** An `IdempotencyOutcome`. */
  outcome?: string
  /** How the attempt ended, if this request or job ran it. */
  ended?: 'completed' | 'released' | 'uncertain'
  fence?: bigint
}

/** The context objects of each tracing channel, by the channel's name. */
export interface TracingContexts {
  /** A request or call, from its lookup in memory to its entry, or to the reason for none. */
  'stampede:lookup': LookupTrace
  /** A run of the handler or factory, and the commit of its result. */
  'stampede:fill': FillTrace
  /** A wait for a run of another request or of another process. */
  'stampede:wait': WaitTrace
  /** A refresh of an entry in the background. */
  'stampede:refresh': RefreshTrace
  /** A call that acquires a lock. */
  'stampede:lock': LockTrace
  /** A request or job with an idempotency key. */
  'stampede:idempotency': IdempotencyTrace
}

/** `any` is the type of stores. In the types of Node 26, this place has the context, an object. */
// biome-ignore lint/suspicious/noExplicitAny: `unknown` is no object, and fails with Node 26.
export type Tracing<Context extends Traced> = TracingChannel<any, Context> & {
  /** Missing in the types of Node 20. */
  readonly hasSubscribers: boolean
}

function tracing<Name extends keyof TracingContexts>(name: Name): Tracing<TracingContexts[Name]> {
  return tracingChannel<unknown, TracingContexts[Name]>(name) as Tracing<TracingContexts[Name]>
}

export const lookupTracing: Tracing<LookupTrace> = tracing('stampede:lookup')
export const fillTracing: Tracing<FillTrace> = tracing('stampede:fill')
export const waitTracing: Tracing<WaitTrace> = tracing('stampede:wait')
export const refreshTracing: Tracing<RefreshTrace> = tracing('stampede:refresh')
export const idempotencyTracing: Tracing<IdempotencyTrace> = tracing('stampede:idempotency')

/** The names of all tracing channels (`node:diagnostics_channel`). */
export const TRACING_CHANNELS: readonly (keyof TracingContexts)[] = [
  'stampede:lookup',
  'stampede:fill',
  'stampede:wait',
  'stampede:refresh',
  'stampede:lock',
  'stampede:idempotency',
]

/** A new context. `name`: the key as the user wrote it, if the internal key does not show it. */
export function contextOf<Facts extends object>(
  internalKey: string,
  facts: Facts,
  name: string = shownKey(internalKey),
): Traced & Facts {
  return { key: name, internalKey, ...facts }
}

/**
 * Runs `run` as one operation of a channel, which lasts until `run` calls `end`, at once or later.
 * The facts known at the end are set before. The stores that are bound to the channel apply to
 * `run`, and to all asynchronous work that it starts.
 */
export function traced<Context extends Traced>(
  channel: Tracing<Context>,
  context: Context,
  run: (end: () => void) => void,
): void {
  let isOver = false
  const end = (): void => {
    isOver = true
    if (!context.isAsync) return
    if (context.error !== undefined) channel.error.publish(context)
    channel.asyncStart.publish(context)
    channel.asyncEnd.publish(context)
  }
  channel.start.runStores(context, () => {
    try {
      run(end)
      if (!isOver) context.isAsync = true
    } catch (error) {
      context.error = error
      throw error
    } finally {
      if (!context.isAsync && context.error !== undefined) channel.error.publish(context)
      channel.end.publish(context)
    }
  })
}

/**
 * As `traced`, for the result of `run`, which may be a promise.
 *
 * Not `tracePromise` of Node: that would give subscribers the internal result, and make a
 * synchronous result a promise.
 */
export function trace<Context extends Traced, Result>(
  channel: Tracing<Context>,
  context: Context,
  run: () => Result | Promise<Result>,
): Result | Promise<Result> {
  let result: Result | Promise<Result> | undefined
  traced(channel, context, (end) => {
    const made = run()
    result = made
    if (!(made instanceof Promise)) return end()
    // Attached here, so that the end of the operation has the stores that are bound to its start.
    const noted = made.catch((error: unknown) => {
      context.error = error
      throw error
    })
    result = noted.finally(end)
  })
  return result as Result | Promise<Result>
}

const lockChannel = tracing('stampede:lock')

/** For the package of locks: runs `run` as one operation, with a context if it has a subscriber. */
export function lockTracing<Result>(
  key: string,
  run: (context: LockTrace | undefined) => Promise<Result>,
): Promise<Result> {
  if (!lockChannel.hasSubscribers) return run(undefined)
  const context = contextOf(key, {}, key)
  return Promise.resolve(trace(lockChannel, context, () => run(context)))
}

/** The current async context, so that later work of a request can run in it. */
export function currentScope(): AsyncResource {
  return new AsyncResource('StampedeTrace')
}

/** Runs `run` in the scope. Without a scope, in the current one. */
export function inScope<Result>(scope: AsyncResource | undefined, run: () => Result): Result {
  return scope === undefined ? run() : scope.runInAsyncScope(run)
}
