// The jobs of one call for many keys. Jobs with one script are one operation and one command. A
// command costs this process and Redis several times as much as one more key of a command.

import { createHash } from 'node:crypto'
import { StampedeError } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { runEach, type Script } from '../protocol/scripts.generated.ts'
import type { OpenLink } from './open-link.ts'
import {
  AGAIN,
  type Job,
  Operation,
  type OperationOptions,
  type Receiver,
  type Turn,
} from './operation.ts'
import { withHint } from './refusal.ts'

type AnyJob = Job<unknown>
/** Gathers the jobs that a function begins. */
type Together = (run: () => void) => void

/** Most keys of one command, which no other command of the fleet can interrupt. */
const MOST_KEYS = 64
/** Most bytes of one command, apart from a single larger argument. */
const MOST_BYTES = 256 * 1024

/** The jobs of callers that began together. */
export class ScriptBatch {
  readonly #link: OpenLink
  readonly #together: Together
  readonly #batches: Batch[] = []

  constructor(link: OpenLink, together: Together) {
    this.#link = link
    this.#together = together
  }

  add(job: AnyJob): void {
    if (!this.#link.servers.mayShareCommands || job.keys.length > 1) {
      new Operation(this.#link, job)
    } else if (!this.#batches.findLast((batch) => batch.isLike(job))?.add(job)) {
      this.#batches.push(new Batch(this.#link, job, this.#together))
    }
  }

  /** Begins the operations. */
  end(): void {
    for (const batch of this.#batches) batch.begin()
  }
}

/** Runs jobs by one command. Each job has its own result. */
class Batch implements Job<readonly unknown[]> {
  readonly options: OperationOptions
  readonly receiver: Receiver<readonly unknown[]> = this
  readonly #link: OpenLink
  readonly #together: Together
  readonly #first: AnyJob
  /** The jobs without a result. */
  #jobs: AnyJob[]
  #bytes: number

  constructor(link: OpenLink, first: AnyJob, together: Together) {
    this.options = first.options
    this.#link = link
    this.#together = together
    this.#first = first
    this.#jobs = [first]
    this.#bytes = first.bytes ?? 0
  }

  isLike({ script, options }: AnyJob): boolean {
    const isAlike = options.ignoreBreaker === this.options.ignoreBreaker
    return isAlike && script === this.#first.script
  }

  /** False: there is no room for the job. */
  add(job: AnyJob): boolean {
    this.#bytes += job.bytes ?? 0
    if (this.size === MOST_KEYS || this.#bytes > MOST_BYTES) return false
    this.#jobs.push(job)
    return true
  }

  begin(): void {
    new Operation(this.#link, this.size === 1 ? this.#first : this)
  }

  get script(): Script {
    return eachOf(this.#first.script)
  }

  get size(): number {
    return this.#jobs.length
  }

  get keys(): readonly string[] {
    return this.#jobs.map(({ keys }) => keys[0] as string)
  }

  onQueued(): void {
    for (const job of this.#jobs) job.onQueued?.()
  }

  confirm(): Promise<void> | undefined {
    return this.#first.confirm?.()
  }

  known(turn: Turn): readonly unknown[] | undefined {
    this.#jobs = this.#jobs.filter((job) => {
      const known = job.known?.(turn)
      const isKnown = known !== undefined && known !== AGAIN
      if (isKnown) give(job, known)
      return !isKnown
    })
    return this.size === 0 ? [] : undefined
  }

  args(turn: Turn): ScriptArgument[] {
    return argumentsOf(this.#jobs.map((job) => job.args(turn)))
  }

  read(raw: unknown, turn: Turn): readonly unknown[] {
    const [replies, failed] = Array.isArray(raw) ? raw : []
    const results: unknown[] = this.#jobs.map((job, i) => {
      const reply: unknown = replies?.[i]
      if (reply === 0) return AGAIN
      try {
        return job.read(reply as never, turn)
      } catch (error) {
        return new Failed(job, error)
      }
    })
    for (let i = 0; i < failed?.length; i += 2) {
      const index = Number(failed[i]) - 1
      const job = this.#jobs[index]
      if (job !== undefined) results[index] = new Failed(job, replyError(String(failed[i + 1])))
    }
    return results
  }

  resolve(results: readonly unknown[]): void {
    // Operations that begin because of these replies are sent together, too.
    this.#together(() => {
      for (const [i, job] of this.#jobs.entries()) {
        const result = results[i]
        if (result === AGAIN) new Operation(this.#link, job)
        else give(job, result)
      }
    })
  }

  reject(error: unknown): void {
    const { message = '' } = Object(Object(error).cause)
    // The server is a node of a cluster, for a client that knows of none.
    const isClusterNode = message.includes('CROSSSLOT')
    if (isClusterNode) this.#link.servers.mayShareCommands = false
    for (const job of this.#jobs) {
      if (isClusterNode) new Operation(this.#link, job)
      else give(job, new Failed(job, job.onFailed?.(error) ?? error))
    }
  }
}

/** The result of a job that failed. */
class Failed {
  readonly error: unknown

  constructor({ script }: AnyJob, error: unknown) {
    const isOurs = error instanceof StampedeError
    this.error = isOurs ? error : storeUnavailable('redis', script.name, withHint(error))
  }
}

/** A receiver that throws must not keep those after it from their results. */
function give({ receiver }: AnyJob, result: unknown): void {
  try {
    if (result instanceof Failed) receiver.reject(result.error)
    else receiver.resolve(result)
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}

function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}

const scripts = new WeakMap<Script, Script>()

/** The script that runs `script` for each of many keys. It is built on first use. */
export function eachOf(script: Script): Script {
  const known = scripts.get(script)
  if (known !== undefined) return known
  const source = runEach.source.replace('\n-- SCRIPT\n', () => `\n${script.source}`)
  const sha1 = createHash('sha1').update(source).digest('hex')
  const each: Script = { name: script.name, keys: runEach.keys, sha1, source }
  scripts.set(script, each)
  return each
}

/** The arguments as lua/run-each-1.lua takes them. An argument that is left out is empty. */
function argumentsOf(rows: ReadonlyArray<readonly ScriptArgument[]>): ScriptArgument[] {
  const width = Math.max(...rows.map((args) => args.length))
  const all: ScriptArgument[] = []
  let letters = ''
  for (let column = 0; column < width; column++) {
    const values = rows.map((args) => args[column] ?? '')
    const isShared = values.every((value) => value === values[0])
    letters += isShared ? 's' : 'n'
    all.push(...(isShared ? values.slice(0, 1) : values))
  }
  return [letters, ...all]
}
