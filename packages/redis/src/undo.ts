// Takes back what may have been done although no reply came, in the background, until the server says that it is
// undone. What is asked for again under the same name is never taken back after it was given.

import { NotSent } from './last-error.ts'

const UNDO_AFTER_MS = [50, 200, 500, 1_500]
/** From then on again and again. */
const AND_EVERY_MS = 2_000

/** What Redis itself refused has not run, nor what was not even sent. */
export function mayHaveRun(error: unknown): boolean {
  const { cause } = error as { cause?: unknown }
  return cause instanceof Error && cause.name !== 'ReplyError' && !(cause instanceof NotSent)
}

/** How long to wait before each try, until what is to be taken back has ended by itself after `forMs`. */
export function* undoDelaysMs(forMs: number): Generator<number> {
  let waitedMs = 0
  for (let n = 0; waitedMs < forMs; n++) {
    const delayMs = UNDO_AFTER_MS[n] ?? AND_EVERY_MS
    waitedMs += delayMs
    yield delayMs
  }
}

interface Undo {
  stopped: boolean
  /** The try on its way; never rejects. */
  sent: Promise<boolean>
}

export class Undos {
  readonly #running = new Map<string, Undo>()

  /** `attempt` is made until it succeeds, or `forMs` are over. It must do nothing after it rejected. */
  start(name: string, forMs: number, attempt: () => Promise<unknown>): void {
    const undo: Undo = { stopped: false, sent: Promise.resolve(false) }
    this.#running.set(name, undo)
    void this.#run(name, undo, forMs, attempt)
  }

  /** Resolves when nothing of this name will be undone any more. */
  async stop(name: string): Promise<void> {
    const undo = this.#running.get(name)
    if (undo === undefined) return
    undo.stopped = true
    await undo.sent
  }

  async #run(
    name: string,
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
    if (this.#running.get(name) === undo) this.#running.delete(name)
  }
}
