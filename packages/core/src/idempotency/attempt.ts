// What a handler is told of its attempt, and how it can say more than its answer does.

import { optionError } from '../errors.ts'
import { publicFence } from '../ports/grant.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import type { Running } from './running.ts'
import { runStep } from './step.ts'

/** How the handler wants its attempt to end, whatever its answer says. */
export type Verdict = 'keep' | 'release' | 'uncertain'

export interface Attempt {
  /** 1 for the first; each run of this key counts. */
  readonly number: number
  /** An earlier attempt died, or lost its lease, in the middle: part of the work may be done. */
  readonly isRecovery: boolean
  /**
   * Fencing token: greater than that of every earlier attempt. Hand it to what you write to, so that a late one is
   * refused there. Undefined when the store was away and `onStoreError: 'proceed'` let the request through.
   */
  readonly fence: bigint | undefined
  /** Aborted when the lease is lost: another attempt may begin, and this one's result will not count. */
  readonly signal: AbortSignal
  /** An idempotency key for a call to the next service: the same in every attempt of this request. */
  childKey(name: string): string
  /**
   * Runs `work` once over all attempts: its result (JSON, or bytes) is remembered, and an attempt that takes over gets it
   * without running it again. Rejects with what `work` threw, which is not remembered.
   */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T>
  /** Keeps the answer, even a 5xx: the request will not be run again. */
  keep(): void
  /** Nothing was done: whatever is answered now, the request may be run again. */
  release(): void
  /** Nobody knows whether it was done: duplicates get 409 until an operator settles it. */
  uncertain(): void
  /** Remembers that it was done, and not the body of the answer. */
  withoutBody(): void
}

/** What the handler said of its attempt. */
export interface Said {
  verdict: Verdict | undefined
  keepsBody: boolean
}

export interface Directed {
  readonly attempt: Attempt
  readonly said: Readonly<Said>
}

const NEVER = new AbortController().signal

/** Without `running` nothing is remembered: the request goes unprotected. */
export function direct(
  rt: IdempotencyRuntime,
  key: string,
  running: Running | undefined,
): Directed {
  const said: Said = { verdict: undefined, keepsBody: true }
  const say = (verdict: Verdict) => () => {
    said.verdict = verdict
  }
  let underWay: Map<string, Promise<unknown>> | undefined
  const attempt: Attempt = {
    number: running?.begun.attempt ?? 1,
    isRecovery: running?.begun.isRecovery ?? false,
    get fence() {
      return publicFence(running?.begun.grant.fence ?? '')
    },
    // Read anew each time: after a suspension the clock knows that the lease is over before any timer does.
    get signal() {
      return running?.signal ?? NEVER
    },
    childKey: (name) => rt.names.childKey(key, readName('childKey', name)),
    step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
      underWay ??= new Map()
      const known = underWay.get(readName('step', name))
      if (known !== undefined) return known as Promise<T>
      const result = runStep(rt, key, running, name, work)
      underWay.set(name, result)
      // One that failed may be tried again in the same attempt.
      result.catch(() => underWay?.delete(name))
      return result
    },
    keep: say('keep'),
    release: say('release'),
    uncertain: say('uncertain'),
    withoutBody() {
      said.keepsBody = false
    },
  }
  return { attempt, said }
}

function readName(where: 'step' | 'childKey', name: string): string {
  if (typeof name === 'string' && /^[\x21-\x7e]{1,100}$/.test(name)) return name
  throw optionError(
    `attempt.${where}: name`,
    name,
    "use 1 to 100 visible ASCII characters: 'charge'",
  )
}
