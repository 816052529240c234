// What the simulated server holds: the records of one memory store, the locks, the log of purges, and who waits for what.

import { memoryStore, type StampedeStore } from '@stampede/core'
import { ServerLocks } from './server-locks.ts'
import { ServerPurges } from './server-purges.ts'

/** Sends a message to whoever listens on a channel; how many do. */
export type Publish = (channel: string, message: Buffer) => number

const CHANNELS = 'stampede:2:'

export class ServerData {
  readonly store: StampedeStore = memoryStore()
  readonly locks: ServerLocks
  readonly purges: ServerPurges
  /** By record: the processes that were told to wait. */
  readonly waits = new Map<string, Set<string>>()
  /** Microseconds, as TIME has them. */
  readonly micros: () => number
  publish: Publish
  /** By record: the key that those who wait know it by. */
  readonly names = new Map<string, string>()

  constructor(micros: () => number, publish: Publish) {
    this.micros = micros
    this.publish = publish
    this.locks = new ServerLocks(micros, (process, message) =>
      this.publish(`${CHANNELS}grant:${process}`, Buffer.from(message)),
    )
    this.purges = new ServerPurges(micros, (message) => {
      this.publish(`${CHANNELS}log`, Buffer.from(message))
    })
    const clock = {
      now: () => this.now,
      wallNow: () => this.micros() / 1000,
      setTimer: () => ({ cancel: () => {} }),
    }
    const onWake = (record: string) => this.#wake(record)
    const nothing = () => {}
    const messages = { onGap: nothing, onLost: nothing, onError: nothing }
    const purged = { onPurge: nothing, onMark: nothing, onExtend: nothing, onForget: nothing }
    this.store.attach({ clock, onWake, ...messages, ...purged })
    this.store.idempotency.attach({ clock, onWake, ...messages, onSettled: nothing })
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
