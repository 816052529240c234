// instrumentStampede: subscribes to the tracing channels of Stampede.

import type { AsyncLocalStorage } from 'node:async_hooks'
import { tracingChannel } from 'node:diagnostics_channel'
import { type Context as ActiveContext, metrics, trace } from '@opentelemetry/api'
import { TRACING_CHANNELS } from '@stampede/core'
import { readers, readOptions } from '@stampede/core/store'
import { contextStorage } from './context-storage.ts'
import type { Channel, Context } from './operations.ts'
import { Operations } from './spans.ts'

/** Options of `instrumentStampede`. */
export interface StampedeInstrumentation {
  /**
   * Whether spans have the attribute `stampede.key`. Keys of responses contain URLs. An
   * idempotency key is never in a span. Default true.
   */
  keys?: boolean | undefined
}

const OPTIONS = {
  keys: readers.flag(true),
} satisfies Record<keyof StampedeInstrumentation, unknown>
const HINTS = new Map([
  ['tracerProvider', 'register it for the process: trace.setGlobalTracerProvider(provider)'],
  ['meterProvider', 'register it for the process: metrics.setGlobalMeterProvider(provider)'],
])
const SCOPE = '@stampede/otel'
/** Ends the instrumentation that is active, because two would start each span twice. */
let stopCurrent: (() => void) | undefined

/**
 * Creates a span and metrics for each operation of every Stampede and of all locks in this process,
 * with the global providers of OpenTelemetry. Register the provider of metrics before the call.
 * A second call replaces the first one. Returns a function that ends the instrumentation, and the
 * spans that are open. Throws `ERR_STAMPEDE_OPTION`.
 */
export function instrumentStampede(options: StampedeInstrumentation = {}): () => void {
  const { keys } = readOptions('instrumentStampede', options, OPTIONS, HINTS)
  stopCurrent?.()
  const operations = new Operations(trace.getTracer(SCOPE), metrics.getMeter(SCOPE), keys)
  let storage: AsyncLocalStorage<ActiveContext> | undefined
  /**
   * Makes the span of an operation active inside it. Called again at each start, because the SDK
   * may register its context manager later. Until then, spans have no children.
   */
  const bind = (): void => {
    if (storage !== undefined) return
    storage = contextStorage()
    if (storage === undefined) return
    for (const channel of TRACING_CHANNELS)
      channelOf(channel).start.bindStore(storage, (context) => operations.start(channel, context))
  }
  const stops = TRACING_CHANNELS.map((channel) => observe(channel, operations, bind))
  bind()
  const stop = () => {
    for (const each of stops) each()
    operations.stop()
    if (storage !== undefined)
      for (const channel of TRACING_CHANNELS) channelOf(channel).start.unbindStore(storage)
    if (stopCurrent === stop) stopCurrent = undefined
  }
  stopCurrent = stop
  return stop
}

function channelOf(channel: Channel) {
  return tracingChannel<ActiveContext, Context>(channel)
}

function observe(channel: Channel, operations: Operations, onStart: () => void): () => void {
  const end = (context: Context) => operations.end(context)
  const handlers = {
    start(context: Context) {
      onStart()
      operations.start(channel, context)
    },
    end(context: Context) {
      if (context.isAsync !== true) end(context)
    },
    asyncStart() {},
    asyncEnd: end,
    error() {},
  }
  channelOf(channel).subscribe(handlers)
  return () => void channelOf(channel).unsubscribe(handlers)
}
