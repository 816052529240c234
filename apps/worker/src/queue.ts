// A job queue that delivers at least once, as real ones do. Here it delivers every job twice, and
// again when the worker that has it dies.

export interface Delivery {
  readonly id: number
  readonly job: number
}

export class Queue {
  /** How often each job was delivered. */
  readonly deliveries: Map<number, number> = new Map()
  readonly #ready: number[]
  readonly #out = new Map<number, { readonly worker: string; readonly job: number }>()
  readonly #idle: Array<{ worker: string; take(delivery: Delivery | undefined): void }> = []
  #lastId = 0

  /** Each job is queued as often as `copies` says, its copies next to each other, so that they meet. */
  constructor(jobs: readonly number[], copies: number) {
    this.#ready = jobs.flatMap((job) => Array<number>(copies).fill(job))
  }

  /** The next delivery; undefined when every delivery was settled and no more will come. */
  take(worker: string): Promise<Delivery | undefined> {
    return new Promise((take) => {
      this.#idle.push({ worker, take })
      this.#hand()
    })
  }

  /** The delivery is finished with. `again`: it was not dealt with, and is to be delivered once more. */
  settle(delivery: Delivery, again = false): void {
    if (this.#out.delete(delivery.id) && again) this.#ready.push(delivery.job)
    this.#hand()
  }

  /** A worker is gone: what it had is delivered again. Returns those jobs. */
  lose(worker: string): number[] {
    const lost = [...this.#out].filter(([, out]) => out.worker === worker)
    for (const [id, { job }] of lost) this.settle({ id, job }, true)
    return lost.map(([, { job }]) => job)
  }

  /** A worker takes no more, also not what it has asked for already. */
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
