// instrumentStampede: subscribes to the tracing channels of Stampede.

import type { AsyncLocalStorage } from 'node:async_hooks'
import { tracingChannel } from 'node:diagnostics_channel'
import {
  type Context as ActiveContext,
  type MeterProvider,
  metrics,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import { TRACING_CHANNELS } from '@stampede/core'
import { flag, optionError, type Reader, readOptions } from '@stampede/core/store'
import { contextStorage } from './context-storage.ts'
import { Measurements } from './measurements.ts'
import type { Channel, Context } from './operations.ts'
import { Spans } from './spans.ts'

/** Options of `instrumentStampede`. */
export interface StampedeInstrumentation {
  /** Default: the global provider. */
  tracerProvider?: TracerProvider | undefined
  /** Default: the global provider, which must be registered before. */
  meterProvider?: MeterProvider | undefined
  /**
   * Whether spans have the attribute `stampede.key`. Keys of responses contain URLs. An
   * idempotency key is never in a span. Default true.
   */
  keys?: boolean | undefined
}

const OPTIONS = {
  tracerProvider: providerWith<TracerProvider>('getTracer'),
  meterProvider: providerWith<MeterProvider>('getMeter'),
  keys: flag(true),
} satisfies Record<keyof StampedeInstrumentation, Reader>
const SCOPE = '@stampede/otel'
/** Ends the instrumentation that is active, because two would start each span twice. */
let stopCurrent: (() => void) | undefined

/**
 * Creates a span and metrics for each operation of every Stampede and of all locks in this process.
 * A second call replaces the first one. Returns a function that ends the instrumentation, and the
 * spans that are open. Throws `ERR_STAMPEDE_OPTION`.
 */
export function instrumentStampede(options: StampedeInstrumentation = {}): () => void {
  const { tracerProvider, meterProvider, keys } = readOptions(
    'instrumentStampede',
    options,
    OPTIONS,
  )
  stopCurrent?.()
  const tracer = (tracerProvider ?? trace.getTracerProvider()).getTracer(SCOPE)
  const meter = (meterProvider ?? metrics.getMeterProvider()).getMeter(SCOPE)
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

function providerWith<T>(method: keyof T & string): Reader<T | undefined> {
  return (where, value) => {
    const isProvider = typeof (value as Partial<T> | null | undefined)?.[method] === 'function'
    if (value === undefined || isProvider) return value as T | undefined
    throw optionError(where, value, `pass a provider of OpenTelemetry, which has ${method}()`)
  }
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
