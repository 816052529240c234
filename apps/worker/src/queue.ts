// A job queue that delivers at least once, as real queues do. It delivers every job twice, and
// again if its worker dies.

export interface Delivery {
  readonly id: number
  readonly job: number
}

export class Queue {
  /** Number of deliveries of each job. */
  readonly deliveries: Map<number, number> = new Map()
  readonly #ready: number[]
  readonly #out = new Map<number, { readonly worker: string; readonly job: number }>()
  readonly #idle: Array<{ worker: string; take(delivery: Delivery | undefined): void }> = []
  #lastId = 0

  /**
   * Queues each job `copies` times. The copies follow each other, so that two workers get them at
   * once.
   */
  constructor(jobs: readonly number[], copies: number) {
    this.#ready = jobs.flatMap((job) => Array<number>(copies).fill(job))
  }

  /** Returns the next delivery. Undefined: all deliveries are settled, and no more will come. */
  take(worker: string): Promise<Delivery | undefined> {
    return new Promise((take) => {
      this.#idle.push({ worker, take })
      this.#hand()
    })
  }

  /** Ends a delivery. With `again`, the job is delivered once more. */
  settle(delivery: Delivery, again = false): void {
    if (this.#out.delete(delivery.id) && again) this.#ready.push(delivery.job)
    this.#hand()
  }

  /** Delivers the jobs of a lost worker again, and returns them. */
  lose(worker: string): number[] {
    const lost = [...this.#out].filter(([, out]) => out.worker === worker)
    for (const [id, { job }] of lost) this.settle({ id, job }, true)
    return lost.map(([, { job }]) => job)
  }

  /** The worker takes no more deliveries, and its waiting `take` ends. */
  dismiss(worker: string): void {
    const leaving = this.#idle.filter((idle) => idle.worker === worker)
    for (const idle of leaving) {
      this.#idle.splice(this.#idle.indexOf(idle), 1)
      idle.take(undefined)
    }
  }

  #hand(): void {
    const isOver = this.#ready.length === 0 && this.#out.size === 0
    const ready = isOver ? this.#idle : this.#idle.slice(0, this.#ready.length)
    for (const { worker, take } of ready.slice()) {
      this.#idle.shift()
      const job = this.#ready.shift()
      if (job === undefined) take(undefined)
      else take(this.#deliver(job, worker))
    }
  }

  #deliver(job: number, worker: string): Delivery {
    this.#lastId += 1
    this.#out.set(this.#lastId, { worker, job })
    this.deliveries.set(job, (this.deliveries.get(job) ?? 0) + 1)
    return { id: this.#lastId, job }
  }
}
