// Reports of this process: it samples its counters, and publishes its snapshot through the store.
// Reports of a fleet cost the store at most five commands a second (reportEveryMs).

import type { Stampede } from '@stampede/core'
import { type Clock, systemClock } from '@stampede/core/store'
import { observe, type ProcessReport, reportEveryMs } from '@stampede/operate'
import { BUCKET_MS, History } from './history.ts'
import { LockWatch, type WatchedLocks } from './lock-watch.ts'

type Observer = ReturnType<typeof observe>
type Timer = ReturnType<Clock['setTimer']>

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
  /** Number of processes that report, as of the last report. */
  processes = 1
  readonly #options: ReporterOptions
  readonly #history: History
  readonly #locks: LockWatch | undefined
  readonly #timers = new Map<string, Timer>()
  #isClosed = false

  constructor(options: ReporterOptions) {
    const { stampede, locks, showKeys } = options
    this.#options = options
    this.#history = new History(stampede.stats())
    this.#locks = locks && new LockWatch(locks)
    this.observer = observe(stampede, {
      showKeys,
      add: () => ({
        history: this.#history.view(),
        locks: this.#locks?.report(showKeys) ?? { stats: {}, held: [] },
      }),
    })
    this.#after('report', 0, () => this.#report())
    this.#sampleLater()
  }

  /** Whether the dashboard or the Stampede is closed. */
  get isClosed(): boolean {
    return this.#isClosed || this.observer.isClosed
  }

  /** The current state of this process. */
  own(): ProcessReport {
    return this.observer.report()
  }

  /** Ends the reports, and removes this process from the dashboards of the others. */
  async close(): Promise<void> {
    const wasOpen = !this.isClosed
    this.#stop()
    if (!wasOpen) return
    const { id, pid, host, at } = this.own()
    const bye = JSON.stringify({ id, pid, host, at, bye: true })
    await this.observer.operator.report(id, bye, BYE_MS).catch(() => 0)
  }

  #stop(): void {
    this.#isClosed = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#locks?.close()
    this.observer.close()
  }

  async #report(): Promise<void> {
    const everyMs = reportEveryMs(this.processes)
    // A new process in the fleet makes the reports of the others rarer, by less than a half.
    const ttlMs = MISSED_REPORTS * everyMs + SPARE_MS
    try {
      const { operator, id } = this.observer
      this.processes = await operator.report(id, this.observer.reportText(), ttlMs)
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
}
