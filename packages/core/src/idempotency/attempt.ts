// The attempt object that a handler or job gets: its steps, and its calls that decide how the
// attempt ends.

import { decodeValue, encodeValue } from '../data/value.ts'
import { optionError, show, stepNotStored, valueError } from '../errors.ts'
import { publicFence } from '../ports/grant.ts'
import type { AttemptTransaction, OpenTransaction } from '../ports/idempotency-store.ts'
import type { Decisions, Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'

/** One run of a handler or job for an idempotency key. `Tx`: the type of its transaction. */
export interface Attempt<Tx = AttemptTransaction> {
  /** Number of this run among all runs of the key. The first one is 1. */
  readonly number: number
  /**
   * Whether the lease of an earlier attempt ended during its run, so part of the work may be done.
   */
  readonly isRecovery: boolean
  /**
   * Fencing token, greater than that of each earlier attempt. Pass it to the database, so that the
   * database can reject writes of an expired attempt. Undefined if the store is unavailable and
   * `onStoreError: 'proceed'` lets the request run unprotected.
   */
  readonly fence: bigint | undefined
  /**
   * Aborted with `ERR_STAMPEDE_LEASE_LOST` when the lease is lost. Then another attempt may begin,
   * and the result of this one does not count.
   */
  readonly signal: AbortSignal
  /**
   * The transaction of this attempt, with the option `transaction`. Without it, reading it throws
   * `ERR_STAMPEDE_OPTION`. After the end of the response or job, its calls reject with
   * `ERR_STAMPEDE_TRANSACTION_OVER`.
   */
  readonly tx: Tx
  /**
   * Rolls back all writes of the transaction so far. The response is stored nevertheless, if its
   * status is, and a repeat gets it. Needs the option `transaction`.
   */
  rollback(): Promise<void>
  /**
   * An idempotency key for a call to another service. It is the same in each attempt of this
   * request. `name` has 1 to 100 visible ASCII characters, otherwise `childKey` throws
   * `ERR_STAMPEDE_OPTION`.
   */
  childKey(name: string): string
  /**
   * Runs `work` once for all attempts and stores its result: JSON, or bytes. A later attempt gets
   * the stored result. If `work` fails, `step` rejects with its error, and `work` may run again.
   * `step` also rejects with `ERR_STAMPEDE_VALUE` if the result cannot be stored or read, and with
   * `ERR_STAMPEDE_LEASE_LOST` if the lease is lost. In a transaction, it rejects with
   * `ERR_STAMPEDE_OPTION`, because the result would be rolled back with it.
   */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T>
  /** Stores the response with any status, also a 5xx, so that the handler does not run again. */
  keep(): void
  /**
   * Releases the key after any response: a repeat of the request runs the handler again. In a
   * transaction, throws `ERR_STAMPEDE_OPTION`.
   */
  release(): void
  /**
   * Makes the outcome uncertain: repeats get a 409 until an operator settles the key. In a
   * transaction, throws `ERR_STAMPEDE_OPTION`.
   */
  uncertain(): void
  /** Stores that the attempt completed, without the body of its response. */
  withoutBody(): void
}

const NEVER = new AbortController().signal

type Step = Attempt['step']

/**
 * The attempt object of a run. Its methods are getters, because handlers destructure the object,
 * and a closure for each method would be allocated in each request.
 */
export class HandlerAttempt implements Attempt<never> {
  readonly number: number
  readonly isRecovery: boolean
  readonly #rt: IdempotencyRuntime
  readonly #key: string
  readonly #running: Running | undefined
  #steps: Map<string, Promise<unknown>> | undefined

  /** Without `running`, the request is unprotected and nothing is stored. */
  constructor(rt: IdempotencyRuntime, key: string, running?: Running) {
    this.number = (running?.begun.attempt ?? 1) + (running?.claim.repeats ?? 0)
    this.isRecovery = running?.begun.isRecovery ?? false
    this.#rt = rt
    this.#key = key
    this.#running = running
  }

  get fence(): bigint | undefined {
    return publicFence(this.#running?.begun.grant.fence ?? '')
  }

  // Reading it checks the clock. After a suspension of the machine, the clock shows the end of the
  // lease before a timer fires.
  get signal(): AbortSignal {
    return this.#running?.signal ?? NEVER
  }

  get tx(): never {
    return this.#transaction('tx').tx as never
  }

  get rollback(): () => Promise<void> {
    return () => this.#transaction('rollback').rollback()
  }

  get childKey(): Attempt['childKey'] {
    return (name) => this.#rt.hashes.childKey(this.#key, readName('childKey', name))
  }

  get step(): Step {
    return (name, work) => this.#step(name, work)
  }

  get keep(): () => void {
    return () => this.#decide('keep')
  }

  get release(): () => void {
    return () => this.#decide('release')
  }

  get uncertain(): () => void {
    return () => this.#decide('uncertain')
  }

  get withoutBody(): () => void {
    return () => {
      if (this.#running !== undefined) this.#running.keepsBody = false
    }
  }

  #decide(verdict: Decisions['verdict']): void {
    if (this.#running === undefined) return
    if (this.#running.holdsAll && verdict !== 'keep') {
      const fix = 'nothing can be uncertain in a transaction; respond with a 5xx to roll it back'
      throw optionError(`attempt.${verdict}`, 'a call in a transaction', fix)
    }
    this.#running.verdict = verdict
  }

  #transaction(name: 'tx' | 'rollback'): OpenTransaction {
    const transaction = this.#running?.begun.transaction
    if (transaction !== undefined) return transaction
    throw optionError(`attempt.${name}`, 'no transaction', 'set the option transaction: true')
  }

  #step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    this.#steps ??= new Map()
    const known = this.#steps.get(readName('step', name))
    if (known !== undefined) return known as Promise<T>
    const result = this.#runStep(name, work)
    this.#steps.set(name, result)
    // A step that failed may be tried again in the same attempt.
    result.catch(() => this.#steps?.delete(name))
    return result
  }

  /** Runs a step or returns its stored result. */
  async #runStep<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    const running = this.#running
    const { seal } = this.#rt
    const where = `attempt.step(${show(name)})`
    if (running?.holdsAll === true) {
      const fix =
        'its result would be rolled back with the transaction; use a route or job without one'
      throw optionError(where, 'a call in a transaction', fix)
    }
    const record = `${this.#key} ${name}`
    const stored = running?.begun.steps.get(name)
    if (stored !== undefined) {
      const kept = seal.decode(record, stored)
      if (kept?.type === 'value') return decodeValue<T>(kept.stored)
      // The step completed, but its result cannot be decoded. The attempt fails, because running
      // the step again would do its work twice.
      const fix = 'use the version and the encryption keys that stored it'
      throw valueError(where, `the stored result cannot be read; ${fix}`)
    }
    if (running?.isLost === true) throw running.signal.reason
    // Most steps return undefined, which JSON cannot encode.
    const value = encodeValue(where, (await work()) ?? null)
    if (value.body.byteLength > MAX_STEP_BYTES) {
      const fix = 'return a reference instead'
      throw valueError(where, `the result has more than ${MAX_STEP_BYTES} bytes; ${fix}`)
    }
    const frame = running && seal.encode(record, { type: 'value', stored: value })
    if (frame !== undefined && (await running?.keepStep(name, frame)) === 'stale')
      throw stepNotStored(name)
    return decodeValue<T>(value)
  }
}

function readName(where: 'step' | 'childKey', name: string): string {
  if (typeof name === 'string' && /^[\x21-\x7e]{1,100}$/.test(name)) return name
  const fix = "use 1 to 100 visible ASCII characters: 'charge'"
  throw optionError(`attempt.${where}: name`, name, fix)
}

const MAX_STEP_BYTES = 64 * 1024
