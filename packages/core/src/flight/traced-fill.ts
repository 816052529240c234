// The tracing of fills, and of refreshes in the background.

import type { Emitted } from '../events.ts'
import { publicFence } from '../ports/grant.ts'
import {
  contextOf,
  currentScope,
  type FillTrace,
  fillTracing,
  inScope,
  type RefreshTrace,
  refreshTracing,
  trace,
} from '../tracing.ts'
import type { Flight } from './flight.ts'
import type { Caller, FillResult, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

interface Runner {
  readonly caller: Caller
  /** Undefined: the run is in the background. */
  readonly leader: unknown
}

/** Whether a fill that starts now is traced. */
export function isFillTraced(): boolean {
  return fillTracing.hasSubscribers || refreshTracing.hasSubscribers
}

/**
 * Runs a fill in the async context of the request or call that runs the origin. A fill for which
 * no request waits is the only step of a refresh.
 */
export async function traceFill(
  flight: Flight,
  runner: Runner,
  fence: string,
  fill: () => Promise<Shared>,
): Promise<Shared> {
  const { caller, leader } = runner
  const run = () => traceRun(flight, runner, fence, fill)
  const isRefresh = leader === undefined && flight.waiters.size === 0
  if (!isRefresh) return inScope(caller.scope, run)
  const context: RefreshTrace = contextOf(flight.key, {})
  const traced = () => {
    caller.scope = currentScope()
    return run()
  }
  return inScope(caller.scope, () =>
    trace(refreshTracing, context, traced, () => {
      const { outcome, error } = flight.waiters.fill ?? {}
      if (outcome !== undefined) context.outcome = outcome
      context.error = error
    }),
  )
}

function traceRun(
  flight: Flight,
  { caller, leader }: Runner,
  fence: string,
  fill: () => Promise<Shared>,
): Shared | Promise<Shared> {
  const facts = { behind: leader === undefined, fence: publicFence(fence) }
  const context: FillTrace = contextOf(flight.key, facts)
  flight.waiters.fill = context
  const run = () => {
    caller.scope = currentScope()
    return fill()
  }
  return trace(fillTracing, context, run, () => {
    context.outcome ??= 'local'
  })
}

/** The event that ends a fill, without the facts that its flight knows. */
type FillEnd = WithoutFlight<
  Extract<Emitted, { readonly elapsedMs: number; type: `fill.${string}` }>
>
type WithoutFlight<E> = E extends unknown ? Omit<E, 'key' | 'elapsedMs'> : never

/** Emits the event that ends a fill, and sets the same facts on its trace. */
export function emitEnd(rt: Runtime, flight: Flight, event: FillEnd): void {
  const elapsedMs = rt.clock.now() - flight.fillingSince
  rt.events.emit({ ...event, key: flight.key, elapsedMs } as Emitted)
  const { fill } = flight.waiters
  if (fill === undefined) return
  const [, outcome] = event.type.split('.')
  fill.outcome = outcome as NonNullable<FillTrace['outcome']>
  if (event.type === 'fill.passed') fill.reason = event.reason
  if (event.type !== 'fill.failed') return
  fill.status = event.failure.status
  fill.error = event.error ?? new Error(event.failure.message)
}

/** Sets the status of the response, for a run that has one. */
export function noteResult({ waiters }: Flight, result: FillResult): FillResult {
  const { fill } = waiters
  const entry = 'entry' in result ? result.entry : undefined
  if (fill !== undefined && entry?.type === 'response') fill.status = entry.status
  return result
}
