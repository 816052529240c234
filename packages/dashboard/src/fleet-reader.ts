// Reads the reports of the fleet, at most once per interval for all viewers of this process.
// Without a viewer, nothing is read.

import { systemClock } from '@stampede/core/store'
import { type ProcessReport, readReport, reportEveryMs } from '@stampede/operate'
import { type FleetView, fleetView, type GoneView, type Heard } from './fleet-view.ts'
import type { Reporter } from './reporter.ts'

/** How long the page shows a process that is gone. */
const GONE_FOR_MS = 120_000

interface Known {
  report: ProcessReport
  /** The time at which this process first read that report. */
  since: number
}

export class FleetReader {
  readonly #reporter: Reporter
  readonly #known = new Map<string, Known>()
  readonly #gone = new Map<string, Omit<GoneView, 'goneForMs'> & { readonly since: number }>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined
  #error: string | undefined

  constructor(reporter: Reporter) {
    this.#reporter = reporter
  }

  /** The reports of now, or of less than an interval ago. */
  async read(): Promise<FleetView> {
    await this.#refresh()
    return this.view()
  }

  /** Starts to read if the interval is over, and returns the newest known state. */
  glance(): FleetView {
    void this.#refresh()
    return this.view()
  }

  view(): FleetView {
    const heard = this.heard()
    const now = systemClock.now()
    const gone = [...this.#gone.values()].map(({ since, ...rest }) => ({
      ...rest,
      goneForMs: now - since,
    }))
    return fleetView(this.#reporter.observer.id, heard, {
      gone: gone.filter(({ goneForMs }) => goneForMs <= GONE_FOR_MS),
      ...(this.#error !== undefined && { storeError: this.#error }),
    })
  }

  /** The last report of each process. The one of this process is of now. */
  heard(): Heard[] {
    const now = systemClock.now()
    const others = [...this.#known.values()].map(({ report, since }) => ({
      report,
      silentMs: now - since,
    }))
    return [{ report: this.#reporter.own(), silentMs: 0 }, ...others]
  }

  #refresh(): Promise<void> {
    const now = systemClock.now()
    const everyMs = reportEveryMs(this.#known.size + 1)
    if (this.#reading !== undefined) return this.#reading
    if (now - this.#readAt < everyMs || this.#reporter.isClosed) return Promise.resolve()
    this.#readAt = now
    this.#reading = this.#readReports().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readReports(): Promise<void> {
    try {
      const texts = await this.#reporter.observer.operator.reports()
      this.#error = undefined
      this.#take([...texts.values()].flatMap((text) => readReport(text) ?? []))
    } catch (error) {
      this.#error = error instanceof Error ? error.message : String(error)
    }
  }

  #take(reports: readonly ProcessReport[]): void {
    const now = systemClock.now()
    const live = new Set<string>()
    for (const report of reports) {
      const { id } = report
      if (id === this.#reporter.observer.id) continue
      if (report.bye) this.#lose(report, true, now)
      else live.add(id)
      if (report.bye || this.#known.get(id)?.report.at === report.at) continue
      this.#known.set(id, { report, since: now })
      this.#gone.delete(id)
    }
    for (const [id, { report }] of this.#known) {
      if (!live.has(id)) this.#lose(report, false, now)
    }
    for (const [id, { since }] of this.#gone) {
      if (now - since > GONE_FOR_MS) this.#gone.delete(id)
    }
  }

  #lose({ id, host, pid }: ProcessReport, wasClosed: boolean, now: number): void {
    if (!this.#known.delete(id)) return
    this.#gone.set(id, { id, host, pid, wasClosed, since: now })
  }
}
