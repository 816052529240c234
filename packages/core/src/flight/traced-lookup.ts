// The tracing of lookups, and of waits for a run of another request or process.

import {
  contextOf,
  currentScope,
  inScope,
  type LookupOutcome,
  type LookupTrace,
  lookupTracing,
  type Traced,
  trace,
  traceEnd,
  traceStart,
  type WaitTrace,
  waitTracing,
} from '../tracing.ts'
import type { Caller, ReadEntry, Resolution } from './resolution.ts'

/** Traces the lookup of one request or call. Its later runs belong to the lookup's context. */
export function traceLookup(
  key: string,
  caller: Caller,
  resolve: () => Resolution | Promise<Resolution>,
): Resolution | Promise<Resolution> {
  const context: LookupTrace = contextOf(key, {})
  const run = () => {
    caller.scope = currentScope()
    return resolve()
  }
  return trace(lookupTracing, context, run, (resolution) => {
    context.outcome = outcomeOf(resolution)
    if (resolution.type === 'pass') context.reason = resolution.reason
    if (resolution.type === 'hit' && resolution.from !== 'fill') context.tier = resolution.from
    const status = statusOf(resolution)
    if (status !== undefined) context.status = status
    noteFailure(context, resolution)
  })
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

/** Begins the wait of one request or call, in its own async context. */
export function beginWait(key: string, { scope }: Caller): WaitTrace {
  const context: WaitTrace = contextOf(key, { isAsync: true } as const)
  inScope(scope, () => traceStart(waitTracing, context))
  return context
}

/** Ends a wait. Undefined: the waiter runs the handler itself from now on. */
export function endWait(context: WaitTrace, resolution: Resolution | undefined): void {
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
