// One operation in Redis for a caller: its turn in the queue of a server, its steps, and the time
// budget that they share. However many steps it has, it is one object.

import { StampedeError } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'
import type { ScriptArgument } from '../protocol/run-script.ts'
import type { Script } from '../protocol/scripts.generated.ts'
import type { OpenLink } from './open-link.ts'
import { CLOSED, isRefusal, lastErrorOf, NotSent, withHint } from './refusal.ts'
import type { ScriptBatch } from './script-batch.ts'
import type { Breaker, Server } from './servers.ts'

/** Longest wait in the queue. The default of `waitMs`, by which most callers are gone. */
const LONGEST_WAIT_MS = 30_000
const TOO_BUSY = 'the command waited too long behind other commands of this process'

const NONE: readonly never[] = []

export interface OperationOptions {
  /** Sends commands even while the breaker is open. */
  readonly ignoreBreaker?: boolean
  /** The operation begins something. So queued operations that end something come before it. */
  readonly begins?: boolean
  /** For work that no caller waits for: without queue and breaker. */
  readonly isBackground?: boolean
}

/** Gets the result of an operation. */
export interface Receiver<T> {
  resolve(value: T): void
  reject(error: unknown): void
}

export class Operation<T> {
  /** How long the current step may wait. */
  limitMs = 0
  dueAt = 0
  place = -1
  readonly server: Server
  /** Set if other operations began together with this one. */
  readonly batch: ScriptBatch | undefined
  /** Whether the operation had to wait for its turn. */
  readonly isQueued: boolean = false
  readonly #link: OpenLink
  readonly #name: string
  readonly #options: OperationOptions
  readonly #work: (operation: never) => void
  readonly #receiver: Receiver<T>
  /** Undefined for background work. */
  readonly #breaker: Breaker | undefined
  readonly #calledAt: number
  /** End of the time budget. */
  #endsAt = 0
  #startedAt = 0
  /** Name of the command of the current step. Undefined if the step is no command. */
  #command: string | undefined
  /** Gets the reply of the current step. Its `this` is the operation. */
  #next: (value: never) => void
  /** The script of the current step. Undefined if it runs none, or was sent with its source. */
  #script: Script | undefined
  #keys: readonly string[] = NONE
  #args: readonly ScriptArgument[] = NONE
  #isOver = false

  /** `work` takes the first step when the operation has its turn. The last step ends it. */
  constructor(
    link: OpenLink,
    server: Server,
    name: string,
    options: OperationOptions,
    work: (operation: never) => void,
    receiver: Receiver<T>,
  ) {
    this.#link = link
    this.batch = link.batch
    this.server = server
    this.#name = name
    this.#options = options
    this.#work = work
    this.#next = work
    this.#receiver = receiver
    this.#breaker = options.isBackground ? undefined : server.breaker
    this.#calledAt = link.clock.now()
    if (this.#breaker === undefined) this.start()
    else this.isQueued = server.queue.enter(this, options.begins)
  }

  /** Called in the turn of the operation. The time budget begins now. */
  start(): void {
    const { clock, budgetMs, isOpen, opening } = this.#link
    const now = clock.now()
    this.#endsAt = now + budgetMs
    if (now - this.#calledAt >= LONGEST_WAIT_MS) {
      this.fail(storeUnavailable('redis', this.#name, new NotSent(undefined, TOO_BUSY)))
    } else if (isOpen) {
      this.#next = this.#work
      this.onReply(this)
    } else if (this.#mayStep(this.#name, () => this.start())) {
      // Without this wait, all first requests of a process would run the origin.
      opening.add(this)
    }
  }

  /**
   * How long the next step may take: the rest of the budget, but at least a tenth of a whole one.
   * Without that minimum, Redis would seem unavailable although only the event loop of this process
   * was blocked.
   */
  get leftMs(): number {
    const { clock, budgetMs, patientUntil } = this.#link
    const now = clock.now()
    const leastMs = now < patientUntil ? budgetMs : budgetMs / 10
    return Math.max(leastMs, this.#endsAt - now)
  }

  /** How long the operation has waited for its turn. */
  get waitedMs(): number {
    return this.#link.clock.now() - this.#calledAt
  }

  /** Waits for something that is no command of this operation. */
  wait<V>(promise: Promise<V>, next: (value: V) => void): void {
    this.#mayStep(undefined, next)
    // Also after the store was closed, because nothing else would handle a rejection.
    promise.then(this.onReply, this.onError)
  }

  /** Sends a command, unless the breaker of its server is open. */
  command<V>(
    name: string,
    request: (link: OpenLink) => Promise<V>,
    next: (value: V) => void,
  ): void {
    if (this.#mayStep(name, next)) request(this.#link).then(this.onReply, this.onError)
  }

  /** Runs a script, unless the breaker of its server is open. */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    next: (raw: never) => void,
  ): void {
    if (!this.#mayStep(script.name, next)) return
    this.#script = script
    this.#keys = keys
    this.#args = args
    if (this.batch !== undefined) this.batch.add({ script, keys, args, operation: this })
    else this.#link.scripts.run(script, keys, args).then(this.onReply, this.onError)
  }

  /** The reply of this step shows that the server's clock was `serverNow`. */
  observe(serverNow: number): void {
    this.server.clock.observe(serverNow, this.#startedAt)
  }

  /** Ends the operation. */
  resolve(value: T, failure?: { readonly error: unknown }): void {
    this.#isOver = true
    this.#link.limits.delete(this)
    if (this.#breaker !== undefined) this.server.queue.leave(this.#breaker)
    try {
      if (failure === undefined) this.#receiver.resolve(value)
      else this.#receiver.reject(failure.error)
    } catch (error) {
      // The loops that end many operations have to go on.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  fail(error: unknown): void {
    if (this.#isOver) return
    this.resolve(undefined as T, { error: this.onFailed(error) })
  }

  /** Called before the operation fails. Returns the error for the caller. */
  onFailed(error: unknown): unknown {
    return error
  }

  readonly onReply = (value: unknown): void => {
    if (this.#isOver) return
    this.#link.limits.delete(this)
    if (this.#command !== undefined) this.#breaker?.succeeded()
    try {
      this.#next(value as never)
    } catch (error) {
      // The reply is malformed.
      const isOurs = error instanceof StampedeError
      this.fail(isOurs ? error : storeUnavailable('redis', this.#command ?? this.#name, error))
    }
  }

  readonly onError = (error: unknown): void => {
    if (this.#isOver) return
    const script = this.#script
    if (script !== undefined && (error as Error).message.startsWith('NOSCRIPT')) {
      this.#script = undefined
      const { scripts } = this.#link
      scripts.evaluate(script, this.#keys, this.#args).then(this.onReply, this.onError)
    } else if (this.#command === undefined) {
      const { connectionError = error } = this.#link
      const isOurs = error instanceof StampedeError
      this.fail(isOurs ? error : storeUnavailable('redis', this.#name, connectionError))
    } else {
      // A server that refuses a command is running. So the refusal counts as a success.
      if (isRefusal(error)) this.#breaker?.succeeded()
      else this.#breaker?.failed()
      this.fail(storeUnavailable('redis', this.#command, withHint(error)))
    }
  }

  /** Called when the time limit of the step is over. */
  expire(): void {
    const { budgetMs, clock, connection, limits, opening, patientUntil } = this.#link
    if (!opening.has(this)) {
      return this.onError(new Error(`no reply within ${Math.round(this.limitMs)} ms`))
    }
    const now = clock.now()
    const cause = lastErrorOf(connection)
    if (cause === undefined && now < patientUntil) {
      limits.delete(this)
      this.limitMs = budgetMs / 10
      return limits.add(this)
    }
    opening.delete(this)
    const waitedMs = Math.round(now - this.#startedAt)
    this.onError(new NotSent(cause ?? new Error(`no connection within ${waitedMs} ms`)))
  }

  /** Starts a step, unless its command must not be sent. */
  #mayStep(command: string | undefined, next: (value: never) => void): boolean {
    const { clock, limits, isClosed } = this.#link
    if (
      command !== undefined &&
      this.#breaker?.mayTry() === false &&
      !this.#options.ignoreBreaker
    ) {
      this.fail(storeUnavailable('redis', command, this.#link.connectionError))
      return false
    }
    this.#command = command
    this.#next = next
    this.#script = undefined
    this.#startedAt = clock.now()
    this.limitMs = this.leftMs
    limits.add(this)
    // Nothing would handle the rejection of a command that is sent after the store was closed.
    if (isClosed) this.onError(new NotSent(undefined, CLOSED))
    return !isClosed
  }
}
