// Takes back what may have been done although no reply came, in the background, until the server says that it is
// undone. What is asked for again under the same name is never taken back after it was given.

const UNDO_AFTER_MS = [50, 200, 500, 1_500, 4_000]

interface Undo {
  stopped: boolean
  /** The try on its way; never rejects. */
  sent: Promise<boolean>
}

export class Undos {
  readonly #running = new Map<string, Undo>()

  /** `attempt` is made until it succeeds, or has been tried for some seconds. It must do nothing after it rejected. */
  start(name: string, attempt: () => Promise<unknown>): void {
    const undo: Undo = { stopped: false, sent: Promise.resolve(false) }
    this.#running.set(name, undo)
    void this.#run(name, undo, attempt)
  }

  /** Resolves when nothing of this name will be undone any more. */
  async stop(name: string): Promise<void> {
    const undo = this.#running.get(name)
    if (undo === undefined) return
    undo.stopped = true
    await undo.sent
  }

  async #run(name: string, undo: Undo, attempt: () => Promise<unknown>): Promise<void> {
    for (const delayMs of UNDO_AFTER_MS) {
      await new Promise((resolve) => setTimeout(resolve, delayMs).unref())
      if (undo.stopped) break
      undo.sent = attempt().then(
        () => true,
        () => false,
      )
      if (await undo.sent) break
    }
    if (this.#running.get(name) === undo) this.#running.delete(name)
  }
}
