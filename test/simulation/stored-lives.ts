// For how long stored entries may be used, by the words of their writers. Learned from the commands
// that the server accepted.

import { commitTerms } from './entry-scripts.ts'
import type { Seen } from './sim-redis.ts'

interface What {
  readonly key: string
  readonly version: number
}

type Lives = (key: string, version: number, forMs: number, now: number) => void

export class StoredLives {
  readonly #lives: Lives

  constructor(lives: Lives) {
    this.#lives = lives
  }

  saw({ command: { name, args, raw }, reply }: Seen, now: number): void {
    if (name !== 'commit' || (reply as unknown[])[0] !== 'COMMITTED') return
    const what = readWhat(raw[1] as Uint8Array)
    if (what === undefined) return
    const { freshMs, staleMs } = commitTerms(args)
    this.#lives(what.key, what.version, freshMs + staleMs, now)
  }
}

/** A value of an application names both, and so does the body of a page. */
function readWhat(frame: Uint8Array): What | undefined {
  const text = Buffer.from(frame).toString('latin1')
  const [, key, version] =
    /"key":"(\w+)","version":(\d+)|path=([^;]+);version=(\d+)/
      .exec(text)
      ?.filter((each) => each !== undefined) ?? []
  return key === undefined ? undefined : { key, version: Number(version) }
}
