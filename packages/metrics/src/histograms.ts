// The histograms: durations of fills and waits, observed from events that are not hits.

import type { Stampede } from '@stampede/core'
import { Histogram } from 'prom-client'
import type { LabelValues } from './metric-table.ts'

/** In the names of all metrics. */
export const PREFIX = 'stampede_'

/**
 * Upper bounds in seconds, from the time of a wake-up to 30 s, the default of `waitMs` and
 * `originTimeoutMs`. From 10 ms to 10 s, where handlers are, each step is at most a factor of 2.5,
 * which bounds the error of a percentile. 5 s is the default `leaseMs`: many waits beyond it mean
 * that holders died.
 */
export const BUCKETS: number[] = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
]

const FILL_OUTCOMES = ['committed', 'fenced', 'passed', 'skipped', 'failed', 'abandoned'] as const

interface HistogramRow {
  readonly help: string
  readonly label: string
  readonly values: readonly string[]
}

/** All histograms, by name without the prefix. docs/guide/metrics.md has them (tested). */
export const HISTOGRAMS: Readonly<Record<'fill' | 'wait', HistogramRow & { name: string }>> = {
  fill: {
    name: 'fill_duration_seconds',
    help: 'Duration of fills, with the commit. Outcome: committed, fenced, passed, skipped, failed or abandoned',
    label: 'outcome',
    values: FILL_OUTCOMES,
  },
  wait: {
    name: 'wait_duration_seconds',
    help: 'Duration of waits for other processes. Ended by: wake-up, gap, lost or lease-end',
    label: 'ended_by',
    values: ['wake-up', 'gap', 'lost', 'lease-end'],
  },
}

export interface Histograms {
  readonly fill: Histogram
  readonly wait: Histogram
}

export function createHistograms(labelNames: readonly string[]): Histograms {
  const create = ({ name, help, label }: HistogramRow & { name: string }): Histogram =>
    new Histogram({
      name: PREFIX + name,
      help,
      labelNames: [...labelNames, label],
      buckets: BUCKETS,
      registers: [],
    })
  return { fill: create(HISTOGRAMS.fill), wait: create(HISTOGRAMS.wait) }
}

/** Observes the events of a Stampede. The returned function ends this and removes the series. */
export function observeEvents(
  { fill, wait }: Histograms,
  stampede: Pick<Stampede, 'on'>,
  labels: LabelValues,
): () => void {
  const series = [
    ...HISTOGRAMS.fill.values.map((outcome) => ({ of: fill, labels: { ...labels, outcome } })),
    ...HISTOGRAMS.wait.values.map((by) => ({ of: wait, labels: { ...labels, ended_by: by } })),
  ]
  for (const each of series) each.of.zero(each.labels)
  const stops = [
    ...FILL_OUTCOMES.map((outcome) =>
      stampede.on(`fill.${outcome}`, ({ elapsedMs }) =>
        fill.observe({ ...labels, outcome }, elapsedMs / 1000),
      ),
    ),
    stampede.on('wait.ended', ({ by, elapsedMs }) =>
      wait.observe({ ...labels, ended_by: by }, elapsedMs / 1000),
    ),
  ]
  return () => {
    for (const stop of stops) stop()
    for (const each of series) each.of.remove(each.labels)
  }
}
