// The jobs of one call for many keys. Jobs with one script are one operation and one command. A
// command costs this process and Redis several times as much as one more key of a command.

import { createHash } from 'node:crypto'
import { StampedeError } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { runEach, type Script } from '../protocol/scripts.generated.ts'
import type { OpenLink } from './open-link.ts'
import { AGAIN, type Job, Operation } from './operation.ts'
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
  /** By script, and by whether the breaker counts. */
  readonly #groups: AnyJob[][] = []
  #uncork: (() => void) | undefined

  constructor(link: OpenLink, together: Together) {
    this.#link = link
    this.#together = together
  }

  add(job: AnyJob): void {
    const { script, options, keys } = job
    if (!this.#link.servers.mayShareCommands || keys.length > 1) return this.#runAlone(job)
    const isLike = ([first]: AnyJob[]) =>
      first?.script === script && first.options.ignoreBreaker === options.ignoreBreaker
    const group = this.#groups.find(isLike)
    if (group === undefined) this.#groups.push([job])
    else group.push(job)
  }

  /** Begins the operations. */
  end(): void {
    for (const jobs of this.#groups) {
      for (const chunk of chunksOf(jobs)) {
        const [first] = chunk
        if (first !== undefined && chunk.length === 1) this.#runAlone(first)
        else new BatchOperation(this.#link, chunk, this.#together)
      }
    }
    // All jobs of this turn start in the next tick.
    if (this.#uncork !== undefined) process.nextTick(this.#uncork)
  }

  #runAlone(job: AnyJob): void {
    new Operation(this.#link, job)
    this.#uncork ??= this.#link.corkNodes?.()
  }
}

const IGNORE = { resolve() {}, reject() {} }
const begin = (operation: unknown): void => (operation as BatchOperation).beginAll()

/** Runs the jobs by one command. Each job has its own result. */
class BatchOperation extends Operation<undefined> {
  readonly #openLink: OpenLink
  readonly #together: Together
  readonly #first: AnyJob
  /** The jobs without a result. */
  #jobs: readonly AnyJob[]

  constructor(link: OpenLink, jobs: readonly AnyJob[], together: Together) {
    const first = jobs[0] as AnyJob
    const { script, keys, options } = first
    super(link, { name: script.name, keys, options, receiver: IGNORE, begin }, jobs.length)
    this.#openLink = link
    this.#together = together
    this.#first = first
    this.#jobs = jobs
    if (this.isQueued) for (const job of jobs) job.onQueued?.()
  }

  beginAll(): void {
    const confirmation = this.#first.guard?.confirm()
    if (confirmation !== undefined) return this.wait(confirmation, this.beginAll)
    const [jobs, left]: [readonly AnyJob[], AnyJob[]] = [this.#jobs, []]
    this.#jobs = left
    for (const job of jobs) {
      const known = job.known?.(this)
      if (known === undefined || known === AGAIN) left.push(job)
      else give(job, known)
    }
    if (left.length === 0) return this.resolve(undefined)
    const keys = left.map((job) => job.keys[0] as string)
    const args = argumentsOf(
      left.map(({ args }) => (typeof args === 'function' ? args(this) : args)),
    )
    this.run(eachOf(this.#first.script), keys, args, this.#read)
  }

  #read(raw: unknown): void {
    const [replies, failed] = Array.isArray(raw) ? raw : []
    const results: unknown[] = this.#jobs.map((job, i) => {
      const reply: unknown = replies?.[i]
      if (reply === 0) return AGAIN
      try {
        return job.read(reply as never, this)
      } catch (error) {
        return new Failed(job, error)
      }
    })
    for (let i = 0; i < failed?.length; i += 2) {
      const index = Number(failed[i]) - 1
      const job = this.#jobs[index]
      if (job !== undefined) results[index] = new Failed(job, replyError(String(failed[i + 1])))
    }
    this.#end(results)
  }

  #end(results: readonly unknown[]): void {
    const confirmation = this.#first.guard?.confirm()
    if (confirmation !== undefined) return this.wait(confirmation, () => this.#end(results))
    this.resolve(undefined)
    // Operations that begin because of these replies are sent together, too.
    this.#together(() => {
      for (const [i, job] of this.#jobs.entries()) {
        const result = results[i]
        if (result === AGAIN) this.#runAlone(job)
        else give(job, result)
      }
    })
  }

  override onFailed(error: unknown): unknown {
    const { message = '' } = Object(Object(error).cause)
    // The server is a node of a cluster, for a client that knows of none.
    const isClusterNode = message.includes('CROSSSLOT')
    if (isClusterNode) this.#openLink.servers.mayShareCommands = false
    for (const job of this.#jobs) {
      if (isClusterNode) this.#runAlone(job)
      else give(job, new Failed(job, job.onFailed?.(error) ?? error))
    }
    return error
  }

  /** An entry ages from the beginning of the batch. */
  #runAlone(job: AnyJob): void {
    new Operation(this.#openLink, job, 1, this.calledAt)
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

function* chunksOf(jobs: readonly AnyJob[]): Generator<readonly AnyJob[]> {
  let [begin, bytes] = [0, 0]
  for (const [i, { bytes: more = 0 }] of jobs.entries()) {
    if (i > begin && (i - begin === MOST_KEYS || bytes + more > MOST_BYTES)) {
      yield jobs.slice(begin, i)
      ;[begin, bytes] = [i, 0]
    }
    bytes += more
  }
  yield jobs.slice(begin)
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
