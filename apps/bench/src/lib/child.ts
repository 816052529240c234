// A child process whose functions the parent calls. Its module exports `start`, which returns them.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

interface Message {
  readonly id: number
  readonly value?: unknown
  readonly error?: string
}

/** The id of the child's first message. No call has it. */
const READY = 0
/** The id of messages that are no reply. */
const EVENT = -1
const MAIN = fileURLToPath(new URL('./child-main.js', import.meta.url))

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
process.setMaxListeners(0)

type Start = { start(...args: never[]): unknown }
type Functions<M extends Start> = Awaited<ReturnType<M['start']>>
type Calls<F> = {
  readonly [K in keyof F]: F[K] extends (...args: infer A) => infer R
    ? (...args: A) => Promise<Awaited<R>>
    : never
}

export interface Child<M extends Start> extends AsyncDisposable {
  readonly pid: number
  /** The functions of the child. A call rejects if it throws, or if the process has ended. */
  readonly call: Calls<Functions<M>>
  readonly hasEnded: () => boolean
  /** The last lines that the process wrote about errors. */
  readonly errors: () => string
}

/** Starts `module` (relative to `src`), and resolves when its functions can be called. */
export async function startChild<M extends Start>(
  module: string,
  args: Parameters<M['start']>,
  { execArgv = [] as string[], onEvent = (_value: unknown): void => {} } = {},
): Promise<Child<M>> {
  const env = { ...process.env, NODE_ENV: 'production' }
  const stdio = ['ignore', 'ignore', 'pipe', 'ipc'] as const
  const child = fork(MAIN, [module, JSON.stringify(args)], { env, execArgv, stdio: [...stdio] })
  const pending = new Map<number, (reply: Message) => void>()
  let [nextId, errors] = [READY + 1, '']
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  // SIGKILL also ends a frozen process.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.stderr?.on('data', (chunk) => {
    errors = (errors + chunk).slice(-4_000)
  })
  child.once('exit', (code, signal) => {
    process.off('exit', kill)
    const error = `${module} ${args.join(' ')} ended (${signal ?? code}) ${errors}`
    for (const settle of pending.values()) settle({ id: READY, error })
  })
  child.on('message', (message: Message) => {
    if (message.id === EVENT) onEvent(message.value)
    pending.get(message.id)?.(message)
    pending.delete(message.id)
  })
  const reply = async (id: number): Promise<unknown> => {
    const { value, error } = await new Promise<Message>((settle) => pending.set(id, settle))
    if (error !== undefined) throw new Error(error)
    return value
  }
  const call = (name: string) =>
    async function called(...given: unknown[]): Promise<unknown> {
      if (hasEnded()) throw new Error(`${module} has ended`)
      const id = nextId++
      child.send({ id, name, args: given })
      return reply(id)
    }
  await reply(READY)
  return {
    pid: child.pid ?? 0,
    call: new Proxy({}, { get: (_target, name) => call(String(name)) }) as Child<M>['call'],
    hasEnded,
    errors: () => errors,
    async [Symbol.asyncDispose]() {
      if (hasEnded()) return
      kill()
      await once(child, 'exit')
    },
  }
}

/** Called in the child: sends a value to `onEvent` of the parent. */
export const emitEvent = (value: unknown): void => void process.send?.({ id: EVENT, value })
