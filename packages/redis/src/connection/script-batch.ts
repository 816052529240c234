// The scripts that one call runs on many keys, in few commands. A command costs this process and
// Redis several times as much as one more key of a command.

import { createHash } from 'node:crypto'
import type { ScriptArgument, ScriptRunner } from '../protocol/run-script.ts'
import { runEach, type Script } from '../protocol/scripts.generated.ts'
import type { Connections } from './connection.ts'
import { isRefusal } from './refusal.ts'

/** Most keys of one command, which no other command of the fleet can interrupt. */
const MOST_KEYS = 64
/** Most bytes of one command, apart from a single larger argument. */
const MOST_BYTES = 256 * 1024

/** The parts of an open link that a batch needs. */
interface BatchLink {
  readonly corkNodes: Connections['corkNodes'] | undefined
  readonly scripts: Pick<ScriptRunner, 'run' | 'evaluate'>
  readonly servers: { mayShareCommands: boolean }
  together(run: () => void): void
}

/** One run of a script, on the record of one key. */
interface Run {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly ScriptArgument[]
  /** Gets the reply. */
  readonly operation: {
    onReply(reply: unknown): void
    onError(error: unknown): void
  }
}

/** The runs of operations that began together. */
export class ScriptBatch {
  readonly #link: BatchLink
  #runs = new Map<Script, Run[]>()

  constructor(link: BatchLink) {
    this.#link = link
  }

  /** Runs the script after this turn, with all others of the turn. */
  add(run: Run): void {
    if (this.#runs.size === 0) process.nextTick(this.#send)
    const runs = this.#runs.get(run.script) ?? []
    this.#runs.set(run.script, runs)
    runs.push(run)
  }

  readonly #send = (): void => {
    const { servers, corkNodes } = this.#link
    const all = this.#runs
    this.#runs = new Map()
    const uncork = corkNodes?.()
    for (const [script, runs] of all) {
      const mayShare = servers.mayShareCommands && runs.every(({ keys }) => keys.length === 1)
      for (const chunk of mayShare ? chunksOf(runs) : runs.map((run) => [run]))
        this.#sendChunk(script, chunk)
    }
    uncork?.()
  }

  #sendAlone({ script, keys, args, operation }: Run): void {
    this.#link.scripts.run(script, keys, args).then(operation.onReply, operation.onError)
  }

  #sendChunk(script: Script, runs: readonly Run[]): void {
    const [first] = runs
    if (first !== undefined && runs.length === 1) return this.#sendAlone(first)
    const { scripts, servers } = this.#link
    const each = eachOf(script)
    const keys = runs.flatMap((run) => run.keys)
    const args = argumentsOf(runs)
    const onReply = (reply: unknown) => this.#deliver(runs, reply)
    const refuse = (error: unknown): void => {
      const { message = '' } = Object(error)
      // The server is a node of a cluster, for a client that knows of none.
      if (isRefusal(error) && message.includes('CROSSSLOT')) {
        servers.mayShareCommands = false
        for (const run of runs) this.#sendAlone(run)
      } else for (const { operation } of runs) operation.onError(error)
    }
    scripts.run(each, keys, args).then(onReply, (error) => {
      if (!Object(error).message?.startsWith('NOSCRIPT')) return refuse(error)
      scripts.evaluate(each, keys, args).then(onReply, refuse)
    })
  }

  /** Operations that begin because of these replies are sent together, too. */
  #deliver(runs: readonly Run[], reply: unknown): void {
    const [replies, failed] = Array.isArray(reply) ? reply : []
    const errors = new Map<number, Error>()
    for (let i = 0; i < failed?.length; i += 2)
      errors.set(Number(failed[i]) - 1, replyError(String(failed[i + 1])))
    this.#link.together(() => {
      for (const [i, run] of runs.entries()) {
        const { operation } = run
        const error = errors.get(i)
        if (error !== undefined) operation.onError(error)
        else if (replies?.[i] === 0) this.#sendAlone(run)
        else operation.onReply(replies?.[i])
      }
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

function* chunksOf(runs: readonly Run[]): Generator<readonly Run[]> {
  let [begin, bytes] = [0, 0]
  for (const [i, { args }] of runs.entries()) {
    const more = args.reduce((sum: number, each) => sum + sizeOf(each), 0)
    if (i > begin && (i - begin === MOST_KEYS || bytes + more > MOST_BYTES)) {
      yield runs.slice(begin, i)
      ;[begin, bytes] = [i, 0]
    }
    bytes += more
  }
  yield runs.slice(begin)
}

function sizeOf(argument: ScriptArgument): number {
  return typeof argument === 'number' ? 8 : argument.length
}

/** The arguments as lua/run-each-1.lua takes them. An argument that is left out is empty. */
function argumentsOf(runs: readonly Run[]): ScriptArgument[] {
  const width = Math.max(...runs.map(({ args }) => args.length))
  const all: ScriptArgument[] = []
  let letters = ''
  for (let column = 0; column < width; column++) {
    const values = runs.map(({ args }) => args[column] ?? '')
    const isShared = values.every((value) => value === values[0])
    letters += isShared ? 's' : 'n'
    all.push(...(isShared ? values.slice(0, 1) : values))
  }
  return [letters, ...all]
}
