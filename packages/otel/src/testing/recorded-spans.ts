// A real SDK with an in-memory exporter, and the exported spans as an indented tree.

import { context, type Span, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'

export class RecordedSpans {
  readonly exporter: InMemorySpanExporter = new InMemorySpanExporter()
  readonly provider: BasicTracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(this.exporter)],
  })

  /** Registers its provider for the process, as NodeSDK does. */
  constructor() {
    trace.setGlobalTracerProvider(this.provider)
  }

  /** Registers the context manager that NodeSDK registers. */
  registerContext(): this {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    return this
  }

  async stop(): Promise<void> {
    context.disable()
    trace.disable()
    await this.provider.shutdown()
  }

  /** Runs `run` inside a span of this name, which ends with it. */
  inside<Result>(name: string, run: (span: Span) => Promise<Result>): Promise<Result> {
    const span = this.provider.getTracer('test').startSpan(name)
    const inSpan = trace.setSpan(context.active(), span)
    return context.with(inSpan, () => run(span)).finally(() => span.end())
  }

  get all(): ReadableSpan[] {
    return this.exporter.getFinishedSpans()
  }

  named(name: string): ReadableSpan[] {
    return this.all.filter((span) => span.name === name)
  }

  /** All spans as lines, children indented below their parents, in order of their starts. */
  tree(): string[] {
    // A child may start in the same microsecond, so the order of the exports is not enough.
    const all = [...this.all].sort((a, b) => timeOf(a) - timeOf(b))
    const lines = (parent: string | undefined, indent: string): string[] =>
      all
        .filter((span) => span.parentSpanContext?.spanId === parent)
        .flatMap((span) => [
          `${indent}${describe(span)}`,
          ...lines(span.spanContext().spanId, `${indent}  `),
        ])
    return lines(undefined, '')
  }
}

function timeOf({ startTime: [seconds, nanoseconds] }: ReadableSpan): number {
  return seconds * 1e9 + nanoseconds
}

function describe({ name, attributes }: ReadableSpan): string {
  const outcome = attributes['stampede.outcome']
  return outcome === undefined ? name : `${name} ${outcome}`
}
