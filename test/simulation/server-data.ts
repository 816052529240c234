// The data of the simulated server: records of the cache, records of idempotency, locks, and the
// purge log. The records of idempotency are those of a memory store.

import { memoryStore } from '@stampede/core'
import type { IdempotencyStore } from '@stampede/core/store'
import { ServerLocks } from './server-locks.ts'
import { ServerPurges } from './server-purges.ts'
import { ServerRecords } from './server-records.ts'

/** Publishes a message on a channel, and returns the number of receivers. */
export type Publish = (channel: string, message: Buffer) => number

const CHANNELS = 'stampede:3:'

export class ServerData {
  readonly idempotency: IdempotencyStore = memoryStore().idempotency
  readonly locks: ServerLocks
  readonly purges: ServerPurges
  readonly records: ServerRecords
  /** The waiting processes of each idempotency record. */
  readonly waits = new Map<string, Set<string>>()
  /** Microseconds, as in TIME. */
  readonly micros: () => number
  /**
   * The server's time without its steps back. An attempt that began before a step back does not
   * last longer.
   */
  readonly steadyMs: () => number
  publish: Publish
  /** The key under which waiters know each idempotency record. */
  readonly names = new Map<string, string>()

  constructor(micros: () => number, steadyMs: () => number, publish: Publish) {
    this.micros = micros
    this.steadyMs = steadyMs
    this.publish = publish
    this.locks = new ServerLocks(micros, (process, message) =>
      this.publish(`${CHANNELS}grant:${process}`, Buffer.from(message)),
    )
    this.purges = new ServerPurges(micros, (message) => {
      this.publish(`${CHANNELS}log`, Buffer.from(message))
    })
    const now = () => this.now
    this.records = new ServerRecords(now, micros, (process, word) => {
      this.publish(`${CHANNELS}wake:${process}`, word)
    })
    const clock = {
      now: steadyMs,
      wallNow: () => this.micros() / 1000,
      setTimer: () => ({ cancel: () => {} }),
    }
    const nothing = () => {}
    const hooks = { onGap: nothing, onLost: nothing, onError: nothing, onSettled: nothing }
    const onWake = (record: string) => this.#wake(record)
    this.idempotency.attach({ clock, onWake, ...hooks, onBack: nothing })
  }

  get now(): number {
    return Math.floor(this.micros() / 1000)
  }

  wait(record: string, process: string): void {
    const waiting = this.waits.get(record) ?? new Set()
    this.waits.set(record, waiting.add(process))
  }

  #wake(record: string): void {
    const key = Buffer.from(this.names.get(record) ?? '')
    for (const process of this.waits.get(record) ?? []) {
      this.publish(`${CHANNELS}wake:${process}`, key)
    }
    this.waits.delete(record)
  }
}
