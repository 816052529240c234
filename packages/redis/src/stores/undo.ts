// Undo of a command that may have run although no reply came. It is repeated in the background
// until Redis confirms it. A caller that repeats its command under the same name stops the undo
// first.

import { NotSent } from '../connection/last-error.ts'

/** Matches any fence. Without a reply, the fence of a claim is unknown; the token alone names it. */
export const ANY_FENCE = '*'

const UNDO_AFTER_MS = [50, 200, 500, 1_500]
/** Delay of all further tries. */
const AND_EVERY_MS = 2_000
/** Undos at the same time. Beyond that, leases end by themselves, later. */
const MOST = 1_000

/** Whether the command of this error may have run. A refused or unsent command has not. */
export function mayHaveRun(error: unknown): boolean {
  const { cause } = error as { cause?: unknown }
  return cause instanceof Error && cause.name !== 'ReplyError' && !(cause instanceof NotSent)
}

/** Delay before each try, until the lease or attempt has ended by itself after `forMs`. */
function* undoDelaysMs(forMs: number): Generator<number> {
  let waitedMs = 0
  for (let n = 0; waitedMs < forMs; n++) {
    const delayMs = UNDO_AFTER_MS[n] ?? AND_EVERY_MS
    waitedMs += delayMs
    yield delayMs
  }
}

interface Undo {
  stopped: boolean
  /** The current try; never rejects. */
  sent: Promise<boolean>
}

export class Undos {
  readonly #running = new Map<string, Undo>()

  get size(): number {
    return this.#running.size
  }

  /** Repeats `attempt` until it resolves, or `forMs` are over. */
  start(name: string, forMs: number, attempt: () => Promise<unknown>): void {
    if (this.#running.size >= MOST) return
    const undo: Undo = { stopped: false, sent: Promise.resolve(false) }
    this.#running.set(name, undo)
    void this.#run(name, undo, forMs, attempt)
  }

  /** Resolves when no undo of this name can run any more. */
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
