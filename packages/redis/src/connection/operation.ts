// One operation in Redis for a caller: its turn in the queue of a server, its steps, and the time
// budget that they share. However many steps it has, it is one object.

import { StampedeError } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'
import type { ScriptArgument } from '../protocol/run-script.ts'
import type { Script } from '../protocol/scripts.generated.ts'
import type { OpenLink } from './open-link.ts'
import { CLOSED, isRefusal, lastErrorOf, NotSent, withHint } from './refusal.ts'
import type { Breaker, Server } from './servers.ts'

/** Longest wait in the queue. The default of `waitMs`, by which most callers are gone. */
const LONGEST_WAIT_MS = 30_000
const TOO_BUSY = 'the command waited too long behind other commands of this process'

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

/** In place of the result of a job: its script has to run once more, or it goes on by itself. */
export const AGAIN: unique symbol = Symbol('again')

/** The operation of a job, in its turn. */
export interface Turn {
  readonly server: Server
  /** How long the next step may take. */
  readonly leftMs: number
  /** When the step began whose reply is read. */
  readonly startedAt: number
}

/** A script on the record of a key, or on these keys of Redis. */
export interface Job<T> {
  /** For errors. Default: the name of the script. */
  readonly name?: string
  readonly script: Script
  /** The server is that of the first key. */
  readonly keys: readonly string[]
  readonly options: OperationOptions
  readonly receiver: Receiver<T>
  /** How many keys of the queue's limit it takes. Absent: one. */
  readonly size?: number
  /** Bytes of the arguments. Absent: few. */
  readonly bytes?: number
  /** Called if the job has to wait for its turn. */
  onQueued?(): void
  /**
   * Called before the script runs, and again before its result counts. If it returns a promise, the
   * operation waits for it first.
   */
  confirm?(): Promise<void> | undefined
  /**
   * The result, if it is known without the script. `operation`: the job is alone, so it may send a
   * cheaper command instead, returns `AGAIN`, and ends or begins the operation later.
   */
  known?(turn: Turn, operation?: Operation<T>): T | typeof AGAIN | undefined
  args(turn: Turn): readonly ScriptArgument[]
  /** Parses the reply. Throws if it is malformed. */
  read(raw: never, turn: Turn): T | typeof AGAIN
  /** Returns the error for the caller. */
  onFailed?(error: unknown): unknown
}

export class Operation<T> {
  /** How long the current step may wait. */
  limitMs = 0
  dueAt = 0
  place = -1
  startedAt = 0
  readonly server: Server
  /** How many keys of the queue's limit it takes. */
  readonly size: number
  readonly #calledAt: number
  readonly #link: OpenLink
  readonly #job: Job<T>
  /** Undefined for background work. */
  readonly #breaker: Breaker | undefined
  /** End of the time budget. */
  #endsAt = 0
  /** Name of the command of the current step. Undefined if the step is no command. */
  #command: string | undefined
  /** Gets the reply of the current step. Its `this` is the operation. */
  #next: (value: never) => void = this.begin
  /** Whether the script is sent with its source, because Redis did not know it. */
  #sendsSource = false
  #isOver = false

  constructor(link: OpenLink, job: Job<T>) {
    const { keys, options, size = 1 } = job
    this.#link = link
    this.server = link.servers.of(keys[0] as string)
    this.size = size
    this.#job = job
    this.#breaker = options.isBackground ? undefined : this.server.breaker
    this.#calledAt = link.clock.now()
    if (this.#breaker === undefined) this.start()
    else if (this.server.queue.enter(this, options.begins)) job.onQueued?.()
  }

  /** Called in the turn of the operation. The time budget begins now. */
  start(): void {
    const { clock, budgetMs, isOpen, opening } = this.#link
    const now = clock.now()
    this.#endsAt = now + budgetMs
    if (now - this.#calledAt >= LONGEST_WAIT_MS) {
      this.fail(storeUnavailable('redis', this.#name, new NotSent(undefined, TOO_BUSY)))
    } else if (isOpen) {
      this.#next = this.begin
      this.onReply(this)
    } else if (this.#mayStep(this.#name, () => this.start())) {
      // Without this wait, all first requests of a process would run the origin.
      opening.add(this)
    }
  }

  begin(): void {
    const job = this.#job
    const confirmation = job.confirm?.()
    if (confirmation !== undefined) return this.#wait(confirmation, this.begin)
    const known = job.known?.(this, this)
    if (known === AGAIN) return
    if (known !== undefined) return this.resolve(known)
    const { script, keys } = job
    if (!this.#mayStep(script.name, this.#read)) return
    const reply = this.#link.scripts.run(script, keys, job.args(this), this.#sendsSource)
    reply.then(this.onReply, this.onError)
  }

  #read(raw: never): void {
    const result = this.#job.read(raw, this)
    if (result === AGAIN) this.begin()
    else this.end(result)
  }

  /** Ends the operation, once the job has confirmed the result. */
  end(result: T): void {
    const confirmation = this.#job.confirm?.()
    if (confirmation === undefined) this.resolve(result)
    else this.#wait(confirmation, () => this.resolve(result))
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

  /** Waits for something that is no command of this operation. */
  #wait(promise: Promise<void>, next: () => void): void {
    this.#mayStep(undefined, next)
    // Also after the store was closed, because nothing else would handle a rejection.
    promise.then(this.onReply, this.onError)
  }

  /** Sends a command in place of the script, unless the breaker of its server is open. */
  command<V>(
    name: string,
    request: (link: OpenLink) => Promise<V>,
    next: (value: V) => void,
  ): void {
    if (this.#mayStep(name, next)) request(this.#link).then(this.onReply, this.onError)
  }

  /** Ends the operation. */
  resolve(value: T, failure?: { readonly error: unknown }): void {
    this.#isOver = true
    this.#link.limits.delete(this)
    if (this.#breaker !== undefined) this.server.queue.leave(this, this.#breaker)
    try {
      if (failure === undefined) this.#job.receiver.resolve(value)
      else this.#job.receiver.reject(failure.error)
    } catch (error) {
      // The loops that end many operations have to go on.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  fail(error: unknown): void {
    if (this.#isOver) return
    this.resolve(undefined as T, { error: this.#job.onFailed?.(error) ?? error })
  }

  get #name(): string {
    return this.#job.name ?? this.#job.script.name
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
    if (this.#command === undefined) {
      const { connectionError = error } = this.#link
      const isOurs = error instanceof StampedeError
      this.fail(isOurs ? error : storeUnavailable('redis', this.#name, connectionError))
    } else if (!this.#sendsSource && (error as Error).message.startsWith('NOSCRIPT')) {
      this.#sendsSource = true
      this.#next = this.begin
      this.onReply(undefined)
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
    const waitedMs = Math.round(now - this.startedAt)
    this.onError(new NotSent(cause ?? new Error(`no connection within ${waitedMs} ms`)))
  }

  /** Starts a step, unless its command must not be sent. */
  #mayStep(command: string | undefined, next: (value: never) => void): boolean {
    const { clock, limits, isClosed } = this.#link
    if (
      command !== undefined &&
      this.#breaker?.mayTry() === false &&
      !this.#job.options.ignoreBreaker
    ) {
      this.fail(storeUnavailable('redis', command, this.#link.connectionError))
      return false
    }
    this.#command = command
    this.#next = next
    this.startedAt = clock.now()
    this.limitMs = this.leftMs
    limits.add(this)
    // Nothing would handle the rejection of a command that is sent after the store was closed.
    if (isClosed) this.onError(new NotSent(undefined, CLOSED))
    return !isClosed
  }
}
