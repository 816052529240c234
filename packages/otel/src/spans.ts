// The operations that are open. Each has a span, with its parent, its links and its status. Metrics
// count how long each takes, and how many there are now.

import {
  type Context as ActiveContext,
  context as active,
  type Histogram,
  type Link,
  type Meter,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
  type UpDownCounter,
} from '@opentelemetry/api'
import { TRACING_CHANNELS } from '@stampede/core'
import {
  type Channel,
  type Context,
  endAttributes,
  metricAttributes,
  showsKey,
  startAttributes,
} from './operations.ts'

/** In seconds, as the semantic conventions ask for. From a hit in memory to a slow origin. */
const BOUNDARIES = [
  ...[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5],
  ...[7.5, 10, 30],
]

interface Begun {
  readonly channel: Channel
  readonly at: number
}

export class Operations {
  readonly #tracer: Tracer
  readonly #withKey: boolean
  readonly #durations: ReadonlyMap<Channel, Histogram>
  readonly #active: UpDownCounter
  readonly #open = new Map<Context, Begun>()
  /** A wait may end after the fill to which its span has a link. */
  readonly #spans = new WeakMap<Context, Span>()

  constructor(tracer: Tracer, meter: Meter, withKey: boolean) {
    this.#tracer = tracer
    this.#withKey = withKey
    const durationOf = (channel: Channel) =>
      meter.createHistogram(`${channel.replace(':', '.')}.duration`, {
        unit: 's',
        description: `Duration of one ${nameOf(channel)}, by its outcome.`,
        advice: { explicitBucketBoundaries: BOUNDARIES },
      })
    this.#durations = new Map(TRACING_CHANNELS.map((channel) => [channel, durationOf(channel)]))
    this.#active = meter.createUpDownCounter('stampede.operation.active', {
      unit: '{operation}',
      description: 'Operations of this process that have begun and not ended.',
    })
  }

  /**
   * Starts the span, unless it has started. Returns the context in which the operation runs.
   *
   * A refresh is the root of a new trace, with a link to the request that began it. Its requests
   * have their responses already, and it was begun by one of many. The specification names this
   * case for links: a long operation that one of many fast requests initiates. A new root also
   * gets a sampling decision of its own, and no trace seems to last longer than its request.
   */
  start(channel: Channel, context: Context): ActiveContext {
    const parent = active.active()
    const known = this.#spans.get(context)
    if (known !== undefined) return trace.setSpan(parent, known)
    const isRoot = channel === 'stampede:refresh'
    const begunBy = trace.getSpanContext(parent)
    const links: Link[] = isRoot && begunBy !== undefined ? [{ context: begunBy }] : []
    const attributes = startAttributes(context, this.#withKey)
    const name = channel.replace(':', '.')
    const options = { kind: SpanKind.INTERNAL, attributes, links, root: isRoot }
    const span = this.#tracer.startSpan(name, options, parent)
    this.#spans.set(context, span)
    this.#open.set(context, { channel, at: performance.now() })
    this.#active.add(1, { 'stampede.operation': nameOf(channel) })
    return trace.setSpan(parent, span)
  }

  /** Ends the span, and records the duration. */
  end(context: Context): void {
    const begun = this.#open.get(context)
    if (begun === undefined) return
    const seconds = (performance.now() - begun.at) / 1000
    this.#durations.get(begun.channel)?.record(seconds, metricAttributes(context))
    this.#close(context, begun)
  }

  /** Ends the spans that are open, without a duration. */
  stop(): void {
    for (const [context, begun] of this.#open) this.#close(context, begun)
  }

  #close(context: Context, { channel }: Begun): void {
    this.#open.delete(context)
    this.#active.add(-1, { 'stampede.operation': nameOf(channel) })
    const span = this.#spans.get(context) as Span
    // The run that this request waited for belongs to another request, so it is a link.
    const fill = 'fill' in context && context.fill ? this.#spans.get(context.fill) : undefined
    if (fill !== undefined) span.addLink({ context: fill.spanContext() })
    span.setAttributes(endAttributes(context))
    const { error } = context
    if (error !== undefined) {
      const exception = exceptionOf(error, showsKey(context, this.#withKey))
      span.recordException(exception)
      span.setStatus({ code: SpanStatusCode.ERROR, message: exception.message })
    }
    span.end()
  }
}

function nameOf(channel: Channel): string {
  return channel.replace('stampede:', '')
}

/** The messages and stacks of Stampede's own errors contain the key. */
function exceptionOf(error: unknown, withKey: boolean): { name: string; message: string } {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const { code } = error as { readonly code?: unknown }
  const isOwn = /^ERR_(STAMPEDE|LOCK)_/.test(String(code))
  return withKey || !isOwn ? error : { name: error.name, message: String(code) }
}
