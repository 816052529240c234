// What the simulated server holds: the records of one memory store, the locks, the log of purges, and who waits for what.

import { memoryStore, type StampedeStore } from '@stampede/core'
import { ServerFields } from './server-fields.ts'
import { ServerLocks } from './server-locks.ts'
import { ServerPurges } from './server-purges.ts'

/** Sends a message to whoever listens on a channel; how many do. */
export type Publish = (channel: string, message: Buffer) => number

const CHANNELS = 'stampede:2:'

export class ServerData {
  readonly store: StampedeStore = memoryStore()
  readonly locks: ServerLocks
  readonly purges: ServerPurges
  readonly fields = new ServerFields(() => this.now)
  /** By record: the processes that were told to wait, each with the name by which it asked. */
  readonly waits = new Map<string, Map<string, string>>()
  /** By record: what a commit tells those who wait, while it is executed. */
  readonly telling = new Map<string, Buffer>()
  /** Microseconds, as TIME has them. */
  readonly micros: () => number
  publish: Publish
  /** By record: the key that those who wait know it by. */
  readonly names = new Map<string, string>()
  /** By record: the stamp of its group that it was last found to be older than. */
  readonly #followed = new Map<string, number>()

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

  wait(record: string, process: string, token = ''): void {
    const waiting = this.waits.get(record) ?? new Map()
    this.waits.set(record, waiting.set(process, token))
  }

  /** A purge of a group since it was last looked at: what a script of lua/ reads from the stamps. */
  async follow(record: string, group: string): Promise<void> {
    if (group === record) return
    const newest = Number(this.fields.newestOf(record))
    const { purged, softened } = this.fields.stampsOf(group)
    const stamp = Math.max(purged, softened)
    if (newest === 0 || newest > stamp || this.#followed.get(record) === stamp) return
    this.#followed.set(record, stamp)
    await this.store.purge(record, { soft: newest > purged })
    if (newest <= purged) this.fields.dropped(record)
  }

  #wake(record: string): void {
    const key = Buffer.from(this.names.get(record) ?? '')
    const told = this.telling.get(record)
    for (const [process, token] of this.waits.get(record) ?? []) {
      const word =
        told === undefined || token === '' ? key : Buffer.concat([Buffer.from(`\0${token}`), told])
      this.publish(`${CHANNELS}wake:${process}`, word)
    }
    this.waits.delete(record)
  }
}
