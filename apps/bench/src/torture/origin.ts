// The origin: one value that can change. Scenarios count its loads, hold them, or let them fail.
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export class Origin extends EventEmitter {
  value = 'old'
  calls = 0
  mostAtOnce = 0
  #atOnce = 0
  /** Called in the n-th load, after it has read the value and before it returns it. */
  during: (call: number) => Promise<unknown> = () => sleep(20)

  readonly load = async (): Promise<string> => {
    this.calls += 1
    this.#atOnce += 1
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#atOnce)
    const read = this.value
    this.emit('call')
    try {
      await this.during(this.calls)
      return read
    } finally {
      this.#atOnce -= 1
    }
  }

  /** Resolves with true if the n-th load begins within the time. */
  async begun(n: number, withinMs = 3_000): Promise<boolean> {
    const signal = AbortSignal.timeout(withinMs)
    while (this.calls < n) {
      const called = await once(this, 'call', { signal }).catch(() => undefined)
      if (called === undefined) return false
    }
    return true
  }

  /** Sets the counts to 0. */
  reset(): void {
    this.calls = 0
    this.mostAtOnce = 0
    this.during = () => sleep(20)
  }
}

export class Gate {
  readonly opened: Promise<void>
  open: () => void = () => {}

  constructor() {
    this.opened = new Promise((resolve) => {
      this.open = resolve
    })
  }
}

export const never = (): Promise<never> => new Promise(() => {})
