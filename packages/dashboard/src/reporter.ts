// Reports of this process: it samples its counters, and publishes its snapshot through the store.
// Reports of a fleet cost the store at most five commands a second (reportEveryMs).

import type { Stampede } from '@stampede/core'
import { type Observer, observe } from '@stampede/core/operator'
import { reportEveryMs, systemClock, type Timer } from '@stampede/core/store'
import { BUCKET_MS, History } from './history.ts'
import { LastFills } from './last-fills.ts'
import { LockWatch, type WatchedLocks } from './lock-watch.ts'
import { ownReport, type ReportParts, writeReport } from './report.ts'
import type { ProcessReport } from './report-shape.ts'
import { shower } from './shown.ts'

/** A process counts as gone if this many of its reports are missing. */
const MISSED_REPORTS = 3
/** A report lives a little longer, because timers and the store may be late. */
const SPARE_MS = 2_000
/** How long other processes see that this one has closed its dashboard. */
const BYE_MS = 10_000

export interface ReporterOptions {
  readonly stampede: Stampede
  readonly locks: WatchedLocks | undefined
  readonly showKeys: boolean
}

export class Reporter {
  readonly observer: Observer
  readonly id: string
  /** Number of processes that report, as of the last report. */
  processes = 1
  readonly #options: ReporterOptions
  readonly #history: History
  readonly fills: LastFills
  readonly #locks: LockWatch | undefined
  readonly #show: ReturnType<typeof shower>
  readonly #timers = new Map<string, Timer>()
  #isClosed = false

  constructor(options: ReporterOptions) {
    const { stampede, locks, showKeys } = options
    this.#options = options
    this.observer = observe(stampede)
    this.id = this.observer.snapshot().id
    this.#history = new History(stampede.stats())
    this.fills = new LastFills(stampede)
    this.#locks = locks && new LockWatch(locks)
    this.#show = shower(showKeys)
    this.#after('report', 0, () => this.#report())
    this.#sampleLater()
  }

  /** Whether the dashboard or the Stampede is closed. */
  get isClosed(): boolean {
    return this.#isClosed || this.observer.isClosed
  }

  /** The current state of this process. */
  own(): ProcessReport {
    return ownReport(this.#parts())
  }

  /** Ends the reports, and removes this process from the dashboards of the others. */
  async close(): Promise<void> {
    const wasOpen = !this.isClosed
    this.#stop()
    if (!wasOpen) return
    const bye = JSON.stringify({ ...this.own(), bye: true, flights: [], recent: [] })
    await this.observer.operator.report(this.id, bye, BYE_MS).catch(() => 0)
  }

  #stop(): void {
    this.#isClosed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#locks?.close()
    this.fills.stop()
    this.observer.close()
  }

  async #report(): Promise<void> {
    const everyMs = reportEveryMs(this.processes)
    // A new process in the fleet makes the reports of the others rarer, by less than a half.
    const ttlMs = MISSED_REPORTS * everyMs + SPARE_MS
    try {
      const { operator } = this.observer
      this.processes = await operator.report(this.id, writeReport(this.#parts()), ttlMs)
    } catch {
      // The store is unavailable: its state is in the next report that arrives.
    }
    this.#after('report', reportEveryMs(this.processes), () => this.#report())
  }

  #sampleLater(): void {
    const untilEnd = BUCKET_MS - (systemClock.wallNow() % BUCKET_MS)
    this.#after('sample', untilEnd, () => {
      this.#sample()
      this.#sampleLater()
    })
  }

  #sample(): void {
    this.#history.sample(this.#options.stampede.stats(), systemClock.wallNow())
  }

  #after(name: string, delayMs: number, run: () => void): void {
    if (this.#isClosed) return
    const timer = systemClock.setTimer(delayMs, () => {
      if (this.isClosed) this.#stop()
      else run()
    })
    this.#timers.set(name, timer)
  }

  #parts(): ReportParts {
    return {
      observer: this.observer,
      history: this.#history.view(),
      locks: this.#locks?.report(this.#show),
      fills: this.fills,
      show: this.#show,
      showKeys: this.#options.showKeys,
      at: systemClock.wallNow(),
    }
  }
}
