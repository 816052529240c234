// A child process whose functions the parent calls with `ask`. The child offers them with
// `offer`.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

interface Question {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

/** The id of the child's first message. No question has it. */
const READY = 0

interface Reply {
  readonly id: number
  readonly value?: unknown
  readonly error?: string
}

export interface Child extends AsyncDisposable {
  readonly pid: number
  /**
   * Calls the function of this name in the child. Rejects if it throws or if the process has ended.
   */
  ask<T>(name: string, argument?: unknown): Promise<T>
}

/** Starts `module` (relative to this folder's parent) and resolves when it can be asked. */
export async function startChild(
  module: string,
  args: readonly string[] = [],
  nodeOptions: readonly string[] = [],
): Promise<Child> {
  const path = fileURLToPath(new URL(`../${module}`, import.meta.url))
  const env = { ...process.env, NODE_ENV: 'production' }
  const child = fork(path, args, { env, execArgv: [...nodeOptions] })
  const atExit = () => child.kill('SIGKILL')
  process.setMaxListeners(0)
  process.once('exit', atExit)
  const conversation = converse(child, `${module} ${args.join(' ')}`)
  await conversation.ready
  return {
    pid: child.pid ?? 0,
    ask: conversation.ask,
    async [Symbol.asyncDispose]() {
      process.off('exit', atExit)
      child.kill('SIGKILL')
      await conversation.ended
    },
  }
}

function converse(child: ChildProcess, name: string) {
  const pending = new Map<number, (reply: Reply) => void>()
  let nextId = 1
  let over: string | undefined
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      over = `${name} ended (${signal ?? code})`
      for (const settle of pending.values()) settle({ id: READY, error: over })
      resolve()
    })
  })
  const replyTo = (id: number) => new Promise<Reply>((resolve) => pending.set(id, resolve))
  child.on('message', (reply: Reply) => {
    pending.get(reply.id)?.(reply)
    pending.delete(reply.id)
  })
  const ask = async <T>(question: string, argument?: unknown): Promise<T> => {
    if (over !== undefined) throw new Error(over)
    const id = nextId++
    const reply = replyTo(id)
    child.send({ id, name: question, argument } satisfies Question)
    const { value, error } = await reply
    if (error !== undefined) throw new Error(`${name}: ${question}: ${error}`)
    return value as T
  }
  const ready = replyTo(READY).then(({ error }) => {
    if (error !== undefined) throw new Error(error)
  })
  return { ask, ready, ended }
}

/** Called in the child: offers these functions to the parent. The child ends with the parent. */
export function offer(functions: Readonly<Record<string, (argument: never) => unknown>>): void {
  process.on('disconnect', () => process.exit())
  process.on('message', async ({ id, name, argument }: Question) => {
    try {
      const value = await functions[name]?.(argument as never)
      process.send?.({ id, value } satisfies Reply)
    } catch (error) {
      process.send?.({ id, error: String(error) } satisfies Reply)
    }
  })
  process.send?.({ id: READY } satisfies Reply)
}
