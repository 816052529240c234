// A span for each operation: its parent, its links and its status.

import {
  type Context as ActiveContext,
  context as active,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import {
  type Channel,
  type Context,
  endAttributes,
  showsKey,
  startAttributes,
} from './operations.ts'

export class Spans {
  readonly #tracer: Tracer
  readonly #withKey: boolean
  readonly #spans = new WeakMap<Context, Span>()

  constructor(tracer: Tracer, withKey: boolean) {
    this.#tracer = tracer
    this.#withKey = withKey
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
    return trace.setSpan(parent, span)
  }

  end(context: Context): void {
    const span = this.#spans.get(context)
    if (span === undefined) return
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

/** The messages and stacks of Stampede's own errors contain the key. */
function exceptionOf(error: unknown, withKey: boolean): { name: string; message: string } {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const { code } = error as { readonly code?: unknown }
  const isOwn = /^ERR_(STAMPEDE|LOCK)_/.test(String(code))
  return withKey || !isOwn ? error : { name: error.name, message: String(code) }
}
