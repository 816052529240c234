// The traces of the engine: lookups, waits, fills, and refreshes in the background. Without a
// subscriber of a channel, its functions are not called.

import type { Caller, FillResult, Lease, ReadEntry, Resolution } from './engine/types.ts'
import type { Emitted, Events } from './events.ts'
import type { Clock } from './ports/clock.ts'
import { publicFence } from './ports/grant.ts'
import {
  contextOf,
  currentScope,
  type FillTrace,
  fillTracing,
  inScope,
  type LookupOutcome,
  type LookupTrace,
  lookupTracing,
  type RefreshTrace,
  refreshTracing,
  type Traced,
  trace,
  traceBegin,
  traceEnd,
  traceStart,
  type WaitTrace,
  waitTracing,
} from './tracing.ts'

// Lookups

/** Traces the lookup of one request or call. Its later runs belong to the lookup's context. */
export function traceLookup(
  key: string,
  caller: Caller,
  find: () => Resolution | undefined,
): Resolution | undefined {
  const context: LookupTrace = contextOf(key, {})
  let found: Resolution | undefined
  traceBegin(lookupTracing, context, () => {
    caller.scope = currentScope()
    caller.lookup = context
    found = find()
    // Without a store, the caller may be answered by now.
    if (found === undefined) return caller.lookup === context
    caller.lookup = undefined
    note(context, found)
    return false
  })
  return found
}

/** Ends the traced lookup of a caller. */
export function endLookup(caller: Caller, context: LookupTrace, resolution: Resolution): void {
  caller.lookup = undefined
  note(context, resolution)
  if (context.isAsync) traceEnd(lookupTracing, context)
}

function note(context: LookupTrace, resolution: Resolution): void {
  context.outcome = outcomeOf(resolution)
  if (resolution.type === 'pass') context.reason = resolution.reason
  if (resolution.type === 'hit' && resolution.from !== 'fill') context.tier = resolution.from
  const status = statusOf(resolution)
  if (status !== undefined) context.status = status
  noteFailure(context, resolution)
}

/** Traces a lookup that never fills. */
export function traceRead(
  key: string,
  read: () => Promise<ReadEntry | undefined>,
): Promise<ReadEntry | undefined> {
  const context: LookupTrace = contextOf(key, {})
  const traced = trace(lookupTracing, context, read, (found) => {
    if (found !== undefined) context.tier = found.from
    context.outcome = found === undefined ? 'absent' : found.stale ? 'stale' : 'hit'
  })
  return Promise.resolve(traced)
}

/** Traces a fresh hit in memory, which is synchronous and has happened already. */
export function traceHit(key: string): void {
  const facts = { outcome: 'hit', tier: 'l1' } as const
  traceStart(lookupTracing, contextOf(key, facts))
}

// Waits

/** Begins the wait of one request or call, in its own async context. */
export function beginWait(key: string, { scope }: Caller): WaitTrace {
  const context: WaitTrace = contextOf(key, { isAsync: true } as const)
  inScope(scope, () => traceStart(waitTracing, context))
  return context
}

/** Ends a wait. Without a resolution, the waiter runs the handler itself from now on. */
export function endWait(
  context: WaitTrace,
  fill: FillTrace | undefined,
  resolution: Resolution | undefined,
): void {
  if (fill !== undefined) context.fill = fill
  context.outcome = resolution === undefined ? 'led' : outcomeOf(resolution)
  noteFailure(context, resolution)
  traceEnd(waitTracing, context)
}

function outcomeOf(resolution: Resolution): LookupOutcome {
  switch (resolution.type) {
    case 'hit':
      if (resolution.stale) return 'stale'
      return resolution.from === 'fill' ? 'collapsed' : 'hit'
    case 'late':
      return 'stale'
    case 'pass':
      return 'passed'
    default:
      return resolution.type
  }
}

function statusOf(resolution: Resolution): number | undefined {
  if (resolution.type === 'failed') return resolution.failure.status
  if (resolution.type !== 'hit') return undefined
  const { entry } = resolution.held
  return entry.type === 'response' ? entry.status : undefined
}

/** A failure of another process has no error of its own. */
function noteFailure(context: Traced, resolution: Resolution | undefined): void {
  if (resolution?.type !== 'failed') return
  context.error = resolution.error ?? new Error(resolution.failure.message)
}

// Fills

/** The parts of a flight that the trace of its fill needs. */
interface TracedFlight {
  readonly key: string
  /** Number of waiters. */
  readonly size: number
  readonly fillingSince: number | undefined
  fill: FillTrace | undefined
}

/** Whether a fill that starts now is traced. */
export function isFillTraced(): boolean {
  return fillTracing.hasSubscribers || refreshTracing.hasSubscribers
}

/**
 * Starts a fill in the async context of the request or call that runs the origin. A fill for which
 * no request waits is the only step of a refresh. `start` gets a function that ends the trace.
 */
export function traceFill(
  flight: TracedFlight,
  caller: Caller,
  behind: boolean,
  { grant }: Lease,
  start: (end: () => void) => void,
): void {
  const facts = { behind, fence: publicFence(grant?.fence ?? '') }
  const context: FillTrace = contextOf(flight.key, facts)
  const refresh: RefreshTrace | undefined =
    behind && flight.size === 0 ? contextOf(flight.key, {}) : undefined
  let isOver = false
  const end = () => {
    isOver = true
    context.outcome ??= 'local'
    if (context.isAsync) traceEnd(fillTracing, context)
    if (refresh === undefined) return
    refresh.outcome = context.outcome
    refresh.error = context.error
    if (refresh.isAsync) traceEnd(refreshTracing, refresh)
  }
  const run = () =>
    traceBegin(fillTracing, context, () => {
      flight.fill = context
      caller.scope = currentScope()
      start(end)
      return !isOver
    })
  const begin = () => {
    if (refresh === undefined) return run()
    traceBegin(refreshTracing, refresh, () => {
      caller.scope = currentScope()
      run()
      return !isOver
    })
  }
  inScope(caller.scope, begin)
}

/** The event that ends a fill, without the facts that its flight knows. */
type FillEnd = WithoutFlight<
  Extract<Emitted, { readonly elapsedMs: number; type: `fill.${string}` }>
>
type WithoutFlight<E> = E extends unknown ? Omit<E, 'key' | 'elapsedMs'> : never

/** Emits the event that ends a fill, and sets the same facts on its trace. */
export function emitEnd(
  { clock, events }: { readonly clock: Pick<Clock, 'now'>; readonly events: Events },
  { key, fill, fillingSince }: TracedFlight,
  event: FillEnd,
): void {
  const now = clock.now()
  // The object of the caller, because a copy would take half a kilobyte.
  const ended = event as { key?: string; elapsedMs?: number }
  ended.key = key
  ended.elapsedMs = now - (fillingSince ?? now)
  events.emit(event as Emitted)
  if (fill === undefined) return
  const [, outcome] = event.type.split('.')
  fill.outcome = outcome as NonNullable<FillTrace['outcome']>
  if (event.type === 'fill.passed') fill.reason = event.reason
  if (event.type !== 'fill.failed') return
  fill.status = event.failure.status
  fill.error = event.error ?? new Error(event.failure.message)
}

/** Sets the status of the response, for a run that has one. */
export function noteResult(fill: FillTrace, result: FillResult): void {
  if (!('entry' in result)) return
  if (result.entry.type === 'response') fill.status = result.entry.status
}
