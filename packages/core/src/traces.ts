// The traces of the engine: lookups, waits, fills, and refreshes in the background. Without a
// subscriber of a channel, its functions are not called.

import type { Caller, FillResult, Lease, ReadEntry, Resolution } from './engine/types.ts'
import type { StoredEntry } from './entry/entry.ts'
import type { Emitted } from './events.ts'
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
  traced,
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
  traced(lookupTracing, context, (end) => {
    caller.scope = currentScope()
    const endLookup = (resolution: Resolution): void => {
      caller.endLookup = undefined
      noteLookup(context, resolution)
      end()
    }
    caller.endLookup = endLookup
    found = find()
    if (found !== undefined) endLookup(found)
  })
  return found
}

function noteLookup(context: LookupTrace, resolution: Resolution): void {
  note(context, resolution)
  if (resolution.type === 'pass') context.reason = resolution.reason
  if (resolution.type === 'failed') context.status = resolution.failure.status
  if (resolution.type !== 'hit') return
  if (resolution.from !== 'fill') context.tier = resolution.from
  noteStatus(context, resolution.held.entry)
}

function note(context: LookupTrace | WaitTrace, resolution: Resolution): void {
  context.outcome = outcomeOf(resolution)
  if (resolution.type === 'failed') noteFailure(context, resolution)
}

function outcomeOf(resolution: Resolution): LookupOutcome {
  const { type } = resolution
  if (type === 'late' || (type === 'hit' && resolution.stale)) return 'stale'
  if (type === 'hit') return resolution.from === 'fill' ? 'collapsed' : 'hit'
  if (type === 'skipped') return 'collapsed'
  return type === 'pass' ? 'passed' : type
}

function noteStatus(context: LookupTrace | FillTrace, entry: StoredEntry): void {
  if (entry.type === 'response') context.status = entry.status
}

type Failed = Pick<Extract<Resolution, { type: 'failed' }>, 'failure' | 'error'>

/** A failure of another process has no error of its own. */
function noteFailure(context: Traced, { failure, error }: Failed): void {
  context.error = error ?? new Error(failure.message)
}

/** Traces a lookup that never fills. */
export function traceRead(
  key: string,
  read: () => Promise<ReadEntry | undefined>,
): Promise<ReadEntry | undefined> {
  const context: LookupTrace = contextOf(key, {})
  const reading = trace(lookupTracing, context, async () => {
    const found = await read()
    if (found !== undefined) context.tier = found.from
    context.outcome = found === undefined ? 'absent' : found.stale ? 'stale' : 'hit'
    return found
  })
  return Promise.resolve(reading)
}

/** Traces a fresh hit in memory, which is synchronous and has happened already. */
export function traceHit(key: string): void {
  traced(lookupTracing, contextOf(key, { outcome: 'hit', tier: 'l1' } as const), (end) => end())
}

// Waits

/** Ends a wait. Without a resolution, the waiter runs the handler itself from now on. */
export type EndWait = (fill: FillTrace | undefined, resolution: Resolution | undefined) => void

/** Begins the wait of one request or call, in its own async context. */
export function beginWait(key: string, { scope }: Caller): EndWait {
  const context: WaitTrace = contextOf(key, {})
  let endTrace = (): void => {}
  inScope(scope, () =>
    traced(waitTracing, context, (end) => {
      endTrace = end
    }),
  )
  return (fill, resolution) => {
    if (fill !== undefined) context.fill = fill
    if (resolution === undefined) context.outcome = 'led'
    else note(context, resolution)
    endTrace()
  }
}

// Fills

/** The parts of a flight that the trace of its fill needs. */
interface TracedFlight {
  readonly key: string
  /** Number of waiters. */
  readonly size: number
  fill: FillTrace | undefined
}

/** Ends the trace of a fill. `result`: that of its run. */
export type EndFill = (result: FillResult | undefined) => void

/**
 * Starts a fill in the async context of the request or call that runs the origin. A fill for which
 * no request waits is the only step of a refresh.
 */
export function traceFill(
  flight: TracedFlight,
  caller: Caller,
  behind: boolean,
  { grant }: Lease,
  start: (end: EndFill) => void,
): void {
  const facts = { behind, fence: publicFence(grant?.fence ?? '') }
  const fill: FillTrace = contextOf(flight.key, facts)
  const run = (endRefresh?: () => void): void =>
    traced(fillTracing, fill, (endFill) => {
      caller.scope = currentScope()
      flight.fill = fill
      start((result) => {
        if (result !== undefined && 'entry' in result && result.entry)
          noteStatus(fill, result.entry)
        fill.outcome ??= 'local'
        endFill()
        endRefresh?.()
      })
    })
  inScope(caller.scope, () => {
    if (!behind || flight.size > 0) return run()
    const refresh: RefreshTrace = contextOf(flight.key, {})
    traced(refreshTracing, refresh, (end) =>
      run(() => {
        refresh.outcome = fill.outcome
        refresh.error = fill.error
        end()
      }),
    )
  })
}

/** The event that ends a fill, without the facts that its flight knows. */
export type FillEnd = WithoutFlight<
  Extract<Emitted, { readonly elapsedMs: number; type: `fill.${string}` }>
>
type WithoutFlight<E> = E extends unknown ? Omit<E, 'key' | 'elapsedMs'> : never

/** Sets the facts of the event that ends a fill. */
export function noteEnd(fill: FillTrace, event: FillEnd): void {
  const [, outcome] = event.type.split('.')
  fill.outcome = outcome as NonNullable<FillTrace['outcome']>
  if (event.type === 'fill.passed') fill.reason = event.reason
  if (event.type !== 'fill.failed') return
  fill.status = event.failure.status
  noteFailure(fill, event)
}
