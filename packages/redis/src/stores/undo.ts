// Undo: ends a lease that a command may have taken although no reply came. The undo is repeated in
// the background until Redis confirms it. A caller that repeats its command with the same token
// stops the undo first.

const FIRST_DELAYS_MS = [50, 200, 500, 1_500]
/** Delay before each later try. */
const LATER_DELAY_MS = 2_000
/**
 * Limit of undos at a time. Above it, a lease that no process uses ends only when its time is over.
 */
const MAX_UNDOS = 1_000

/**
 * The delay before each try. The tries end after `forMs`, because the lease has then ended by
 * itself.
 */
function* undoDelaysMs(forMs: number): Generator<number> {
  let waitedMs = 0
  for (let n = 0; waitedMs < forMs; n++) {
    const delayMs = FIRST_DELAYS_MS[n] ?? LATER_DELAY_MS
    waitedMs += delayMs
    yield delayMs
  }
}

interface Undo {
  stopped: boolean
  /** Result of the current try. Never rejects. */
  sent: Promise<boolean>
}

export class Undos {
  readonly #running = new Map<string, Undo>()

  /** Repeats `attempt` until it resolves or `forMs` are over. */
  start(token: string, forMs: number, attempt: () => Promise<unknown>): void {
    if (this.#running.size >= MAX_UNDOS) return
    const undo: Undo = { stopped: false, sent: Promise.resolve(false) }
    this.#running.set(token, undo)
    void this.#run(token, undo, forMs, attempt)
  }

  /** Stops the undo of this token, if there is one. Resolves when its current try has ended. */
  stop(token: string): Promise<unknown> | undefined {
    const undo = this.#running.get(token)
    if (undo === undefined) return undefined
    this.#running.delete(token)
    undo.stopped = true
    return undo.sent
  }

  async #run(
    token: string,
    undo: Undo,
    forMs: number,
    attempt: () => Promise<unknown>,
  ): Promise<void> {
    for (const delayMs of undoDelaysMs(forMs)) {
      await new Promise((resolve) => setTimeout(resolve, delayMs).unref())
      if (undo.stopped) break
      undo.sent = attempt().then(
        () => true,
        () => false,
      )
      if (await undo.sent) break
    }
    if (this.#running.get(token) === undo) this.#running.delete(token)
  }
}
