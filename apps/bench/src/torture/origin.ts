// The origin: one value that changes, loads that are counted, held, failed or never end, as a scenario says.
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export class Origin extends EventEmitter {
  value = 'old'
  calls = 0
  mostAtOnce = 0
  #atOnce = 0
  /** What happens in the n-th load between the moment it reads the value and its end. */
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

  /** Resolves with whether the n-th load has begun in time. */
  async begun(n: number, withinMs = 3_000): Promise<boolean> {
    const signal = AbortSignal.timeout(withinMs)
    while (this.calls < n) {
      const called = await once(this, 'call', { signal }).catch(() => undefined)
      if (called === undefined) return false
    }
    return true
  }

  /** Forgets what was counted so far. */
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
