// stampedeMetrics: registers the metrics of a Stampede, and of locks, with prom-client.

import type { Stampede } from '@stampede/core'
import { optionError, readOptions } from '@stampede/core/store'
import { register } from 'prom-client'
import { type AnyRegistry, familyOf } from './family.ts'
import { HISTOGRAMS, observeEvents } from './histograms.ts'
import { type LabelValues, type LockStats, METRICS } from './metric-table.ts'

/** Options of `stampedeMetrics`. */
export interface MetricsOptions {
  /** The Stampede whose `stats()` each scrape reads. */
  readonly stampede: Stampede
  /** Locks with `stats()`. Default: none, and no series of locks. */
  readonly locks?: { stats(): LockStats } | undefined
  /** Default: `register`, the global registry of prom-client. */
  readonly registry?: AnyRegistry | undefined
  /**
   * Labels of all series of this Stampede. The label `stampede` distinguishes several Stampedes in
   * one registry. Its default is `default`.
   */
  readonly labels?: LabelValues | undefined
}

/**
 * Registers the metrics of a Stampede. Counters and gauges are read at each scrape, so requests do
 * not pay for them. `close()` of the returned object removes the series of this Stampede from the
 * registry. Throws `ERR_STAMPEDE_OPTION`.
 */
export function stampedeMetrics(options: MetricsOptions): { close(): void } {
  const read = readOptions('stampedeMetrics', options, READERS, HINTS)
  const { stampede, locks, registry, labels } = read
  const source = { labels, read: () => ({ stats: stampede.stats(), locks: locks?.stats() }) }
  const family = familyOf(registry, Object.keys(labels))
  family.add(source)
  const stop = observeEvents(family.histograms, stampede, labels)
  let isOpen = true
  return {
    close() {
      if (!isOpen) return
      isOpen = false
      stop()
      family.remove(source)
    },
  }
}

type Reader<T> = (where: string, value: unknown) => T

/** Reader of an object with these methods. */
function having<T>(fix: string, ...methods: (keyof T)[]): Reader<T> {
  return (where, value) => {
    const object = value as T | null | undefined
    if (methods.every((name) => typeof object?.[name] === 'function')) return object as T
    throw optionError(where, value, fix)
  }
}

function orElse<T, Else>(fallback: Else, reader: Reader<T>): Reader<T | Else> {
  return (where, value) => (value === undefined ? fallback : reader(where, value))
}

const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/
const OWN_LABELS: readonly string[] = [
  'le',
  ...Object.values(METRICS).flatMap(({ labels }) => labels),
  ...Object.values(HISTOGRAMS).map(({ label }) => label),
]

function readLabels(where: string, value: unknown): LabelValues {
  const fix = "pass an object of strings, such as { stampede: 'catalog' }"
  if (typeof value !== 'object' || value === null) throw optionError(where, value, fix)
  const labels = Object.entries({ stampede: 'default', ...value })
  for (const [name, label] of labels) {
    if (typeof label !== 'string') throw optionError(`${where}.${name}`, label, 'use a string')
    const own = OWN_LABELS.includes(name)
    if (own) throw optionError(where, name, 'the metrics use this label; use another name')
    if (!LABEL_NAME.test(name))
      throw optionError(where, name, 'use a name of letters, digits and underscores')
  }
  // In one order, so that the labels of two Stampedes can be compared.
  return Object.fromEntries(labels.sort(([a], [b]) => (a < b ? -1 : 1)))
}

const HINTS = new Map([['prefix', "use labels, such as { app: 'shop' }, to tell apps apart"]])
const READERS = {
  stampede: having<Stampede>('pass what createStampede() returned', 'stats', 'on'),
  locks: orElse(
    undefined,
    having<{ stats(): LockStats }>('pass what createLocks() returned', 'stats'),
  ),
  registry: orElse(
    register as AnyRegistry,
    having<AnyRegistry>('pass a Registry of prom-client', 'registerMetric', 'getSingleMetric'),
  ),
  labels: orElse({ stampede: 'default' } as LabelValues, readLabels),
}
