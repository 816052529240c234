// The messages of all tracing channels as lines, so that a test's assertion reads as a list.

import { channel } from 'node:diagnostics_channel'
import { TRACING_CHANNELS, type Traced } from '../tracing.ts'

const STEPS = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const

export class TraceTranscript {
  readonly lines: string[] = []
  readonly contexts: Traced[] = []
  readonly #stops: (() => void)[] = []

  /** Records until `stop()`. `channels`: default all. */
  record(channels: readonly string[] = TRACING_CHANNELS): this {
    for (const name of channels) {
      for (const step of STEPS) {
        const of = channel(`tracing:${name}:${step}`)
        const listener = (message: unknown) => this.#note(name, step, message as Traced)
        of.subscribe(listener)
        this.#stops.push(() => of.unsubscribe(listener))
      }
    }
    return this
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop()
  }

  /** The lines since the last call. */
  take(): string[] {
    return this.lines.splice(0)
  }

  #note(name: string, step: string, context: Traced): void {
    if (step === 'start') this.contexts.push(context)
    this.lines.push(`${name.replace('stampede:', '')} ${step}${factsOf(context)}`)
  }
}

/** The facts of a context that differ between operations. A fill is named by its outcome. */
function factsOf({ key: _, internalKey: __, isAsync: ___, ...facts }: Traced): string {
  return Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${shown(name, value)}`)
    .join('')
}

function shown(name: string, value: unknown): string {
  if (name === 'fence') return typeof value
  if (value instanceof Error) return value.message
  if (name === 'fill') return String((value as { outcome?: string }).outcome)
  return String(value)
}
