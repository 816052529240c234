// The metrics of one registry, shared by all Stampedes that report to it.

import { optionError } from '@stampede/core/store'
import {
  Counter,
  Gauge,
  type Metric,
  type OpenMetricsContentType,
  type Registry,
} from 'prom-client'
import { createHistograms, HISTOGRAMS, type Histograms, PREFIX } from './histograms.ts'
import { type LabelValues, METRICS, type MetricRow, type Snapshot } from './metric-table.ts'

export type AnyRegistry = Registry | Registry<OpenMetricsContentType>

/** One Stampede, with the labels of all its series. */
export interface Source {
  readonly labels: LabelValues
  readonly read: () => Snapshot
}

const families = new WeakMap<AnyRegistry, Family>()

/** The metrics of a registry. They are registered on first use. */
export function familyOf(registry: AnyRegistry, labelNames: readonly string[]): Family {
  const known = families.get(registry)
  if (known?.isRegistered) return known
  const created = new Family(registry, labelNames)
  families.set(registry, created)
  return created
}

export class Family {
  readonly histograms: Histograms
  readonly #registry: AnyRegistry
  readonly #labelNames: readonly string[]
  /** By full name. A registry for OpenMetrics changes the `name` of a counter. */
  readonly #metrics: ReadonlyMap<string, Metric>
  readonly #sources = new Map<string, Source>()
  #scraped: readonly (readonly [LabelValues, Snapshot])[] | undefined

  constructor(registry: AnyRegistry, labelNames: readonly string[]) {
    this.#registry = registry
    this.#labelNames = labelNames
    this.histograms = createHistograms(labelNames)
    const { fill, wait } = this.histograms
    this.#metrics = new Map<string, Metric>([
      ...Object.entries(METRICS).map(
        ([name, row]) => [PREFIX + name, this.#create(PREFIX + name, row)] as const,
      ),
      [PREFIX + HISTOGRAMS.fill.name, fill],
      [PREFIX + HISTOGRAMS.wait.name, wait],
    ])
    for (const name of this.#metrics.keys()) {
      if (registry.getSingleMetric(name) === undefined) continue
      const fix = `it has a metric "${name}" of other code; pass another registry`
      throw optionError('stampedeMetrics.registry', registry, fix)
    }
    for (const metric of this.#metrics.values()) registry.registerMetric(metric)
  }

  /** False after `registry.clear()`, and after the last `remove`. */
  get isRegistered(): boolean {
    return [...this.#metrics].every(([name, each]) => this.#registry.getSingleMetric(name) === each)
  }

  add(source: Source): void {
    const id = idOf(source)
    if (String(Object.keys(source.labels)) !== String(this.#labelNames)) {
      const names = this.#labelNames.join(', ')
      const fix = `use the label names of the other Stampedes in this registry: ${names}`
      throw optionError('stampedeMetrics.labels', id, fix)
    }
    if (this.#sources.has(id)) {
      const fix =
        'a Stampede in this registry has these labels; close its metrics, or name this Stampede: ' +
        "labels: { stampede: 'catalog' }"
      throw optionError('stampedeMetrics.labels', id, fix)
    }
    this.#sources.set(id, source)
  }

  /** After the last Stampede, the metrics leave the registry. */
  remove(source: Source): void {
    this.#sources.delete(idOf(source))
    if (this.#sources.size > 0 || !this.isRegistered) return
    for (const name of this.#metrics.keys()) this.#registry.removeSingleMetric(name)
  }

  #create(name: string, { type, help, labels, aggregator, read }: MetricRow): Metric {
    const labelNames = [...this.#labelNames, ...labels]
    const config = { name, help, labelNames, aggregator, registers: [], collect: () => collect() }
    const metric: Gauge | Counter = type === 'gauge' ? new Gauge(config) : new Counter(config)
    const collect = () => {
      metric.reset()
      for (const [labels, snapshot] of this.#snapshots())
        for (const [value, own] of read(snapshot)) metric.inc({ ...labels, ...own }, value)
    }
    return metric
  }

  /**
   * A registry collects all metrics of a scrape in one synchronous loop. So each Stampede is read
   * once per scrape, and its metrics agree with each other.
   */
  #snapshots(): readonly (readonly [LabelValues, Snapshot])[] {
    if (this.#scraped === undefined) {
      const sources = [...this.#sources.values()]
      this.#scraped = sources.map(({ labels, read }) => [labels, read()] as const)
      queueMicrotask(() => {
        this.#scraped = undefined
      })
    }
    return this.#scraped
  }
}

const idOf = ({ labels }: Source): string => JSON.stringify(labels)
