// The metrics of operations: how long each takes, and how many there are now.

import type { Histogram, Meter, UpDownCounter } from '@opentelemetry/api'
import { type Channel, type Context, metricAttributes } from './operations.ts'

/** In seconds, as the semantic conventions ask for. From a hit in memory to a slow origin. */
const BOUNDARIES = [
  ...[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5],
  ...[7.5, 10, 30],
]

interface Begun {
  readonly operation: { readonly 'stampede.operation': string }
  readonly at: number
}

export class Measurements {
  readonly #durations: ReadonlyMap<Channel, Histogram>
  readonly #active: UpDownCounter
  readonly #begun = new WeakMap<Context, Begun>()

  constructor(meter: Meter, channels: readonly Channel[]) {
    const durationOf = (channel: Channel) =>
      meter.createHistogram(`${channel.replace(':', '.')}.duration`, {
        unit: 's',
        description: `Duration of one ${channel.replace('stampede:', '')}, by its outcome.`,
        advice: { explicitBucketBoundaries: BOUNDARIES },
      })
    this.#durations = new Map(channels.map((channel) => [channel, durationOf(channel)]))
    this.#active = meter.createUpDownCounter('stampede.operation.active', {
      unit: '{operation}',
      description: 'Operations of this process that have begun and not ended.',
    })
  }

  start(channel: Channel, context: Context): void {
    if (this.#begun.has(context)) return
    const operation = { 'stampede.operation': channel.replace('stampede:', '') }
    this.#begun.set(context, { operation, at: performance.now() })
    this.#active.add(1, operation)
  }

  end(channel: Channel, context: Context): void {
    const begun = this.drop(context)
    if (begun === undefined) return
    const seconds = (performance.now() - begun.at) / 1000
    this.#durations.get(channel)?.record(seconds, metricAttributes(context))
  }

  /** Counts the operation as no longer active, without a duration. */
  drop(context: Context): Begun | undefined {
    const begun = this.#begun.get(context)
    if (begun !== undefined) this.#active.add(-1, begun.operation)
    this.#begun.delete(context)
    return begun
  }
}
