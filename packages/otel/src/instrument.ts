// instrumentStampede: subscribes to the tracing channels of Stampede.

import type { AsyncLocalStorage } from 'node:async_hooks'
import { tracingChannel } from 'node:diagnostics_channel'
import { type Context as ActiveContext, metrics, trace } from '@opentelemetry/api'
import { TRACING_CHANNELS } from '@stampede/core'
import { readers, readOptions } from '@stampede/core/store'
import { contextStorage } from './context-storage.ts'
import { Measurements } from './measurements.ts'
import type { Channel, Context } from './operations.ts'
import { Spans } from './spans.ts'

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
  const tracer = trace.getTracer(SCOPE)
  const meter = metrics.getMeter(SCOPE)
  const spans = new Spans(tracer, keys)
  const measurements = new Measurements(meter, TRACING_CHANNELS)
  const storage = new Binding(spans)
  const stops = TRACING_CHANNELS.map((channel) => observe(channel, spans, measurements, storage))
  storage.bind()
  const stop = () => {
    for (const each of stops) each()
    storage.unbind()
    if (stopCurrent === stop) stopCurrent = undefined
  }
  stopCurrent = stop
  return stop
}

function channelOf(channel: Channel) {
  return tracingChannel<ActiveContext, Context>(channel)
}

/** Makes the span of an operation active inside it. */
class Binding {
  readonly #spans: Spans
  #storage: AsyncLocalStorage<ActiveContext> | undefined

  constructor(spans: Spans) {
    this.#spans = spans
  }

  /**
   * Called again at each start, because the SDK may register its context manager later. Until
   * then, spans have no children.
   */
  bind(): void {
    if (this.#storage !== undefined) return
    const storage = contextStorage()
    if (storage === undefined) return
    this.#storage = storage
    for (const channel of TRACING_CHANNELS) {
      const start = (context: Context) => this.#spans.start(channel, context)
      channelOf(channel).start.bindStore(storage, start)
    }
  }

  unbind(): void {
    if (this.#storage === undefined) return
    for (const channel of TRACING_CHANNELS) channelOf(channel).start.unbindStore(this.#storage)
  }
}

function observe(
  channel: Channel,
  spans: Spans,
  measurements: Measurements,
  storage: Binding,
): () => void {
  const open = new Set<Context>()
  const end = (context: Context) => {
    open.delete(context)
    measurements.end(channel, context)
    spans.end(context)
  }
  const handlers = {
    start(context: Context) {
      storage.bind()
      open.add(context)
      measurements.start(channel, context)
      spans.start(channel, context)
    },
    end(context: Context) {
      if (context.isAsync !== true) end(context)
    },
    asyncStart() {},
    asyncEnd: end,
    error() {},
  }
  channelOf(channel).subscribe(handlers)
  return () => {
    channelOf(channel).unsubscribe(handlers)
    for (const context of open) {
      measurements.drop(context)
      spans.end(context)
    }
  }
}
