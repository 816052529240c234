// Fleets: N processes of one server script, as they would run behind a load balancer. The scripts
// are in servers/ and import the built packages.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { guard, signal } from './guard.ts'

export interface FleetOptions {
  readonly size: number
  /** The script, usually `new URL('./harness/servers/….mjs', import.meta.url)`. See member.mjs. */
  readonly entry: URL
  /** Added to the environment of each member, which also finds its index as MEMBER_INDEX. */
  readonly env?: Readonly<Record<string, string>>
}

export interface MemberExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface FleetMember {
  readonly index: number
  readonly pid: number
  readonly url: string
  /** Everything that the member wrote to standard error. */
  stderr(): string
  /** Undefined while it runs. */
  exit(): MemberExit | undefined
  /** Freezes the process: it keeps its sockets, and its timers fire late. */
  pause(): void
  resume(): void
  /** Sends SIGKILL, and resolves when the process has ended. */
  kill(): Promise<MemberExit>
  /** Sends SIGTERM, and SIGKILL if the process still runs after `withinMs` (default 30 000). */
  stop(withinMs?: number): Promise<MemberExit>
  /** Sends a message to the script and resolves with its reply. Rejects with its error. */
  ask<Reply = unknown>(message: unknown, withinMs?: number): Promise<Reply>
}

export interface Fleet extends AsyncDisposable {
  readonly members: readonly FleetMember[]
  readonly urls: readonly string[]
  stop(): Promise<void>
}

/** Resolves when every member listens. If one cannot start, the others are stopped. */
export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const starts = await Promise.allSettled(
    Array.from({ length: options.size }, (_, index) => startMember(index, options)),
  )
  const members = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const stop = async () => {
    await Promise.all(members.map((member) => member.stop()))
  }
  const failed = starts.find((start) => start.status === 'rejected')
  if (failed) {
    await stop()
    throw failed.reason
  }
  return { members, urls: members.map(({ url }) => url), stop, [Symbol.asyncDispose]: stop }
}

/**
 * Stops a member and throws unless it ended by itself, in time and with code 0. It must not report
 * an unhandled rejection or leaked listeners.
 */
export async function assertCleanExit(member: FleetMember, withinMs?: number): Promise<void> {
  const { code, signal } = await member.stop(withinMs)
  const stderr = member.stderr()
  const isNoisy = /unhandled|uncaught|MaxListenersExceededWarning/i.test(stderr)
  if (code === 0 && !isNoisy) return
  throw new Error(
    `Member ${member.index} did not exit cleanly (code ${code}, signal ${signal}); stderr:\n${stderr}`,
  )
}

// A message from a member, see servers/member.mjs.
type MemberMessage =
  | { readonly type: 'listening'; readonly port: number }
  | {
      readonly type: 'reply'
      readonly id: number
      readonly value?: unknown
      readonly error?: string
    }

async function startMember(index: number, { entry, env }: FleetOptions): Promise<FleetMember> {
  const child = fork(fileURLToPath(entry), {
    // Not inherited, because the test runner's conditions and loaders would change the modules that
    // a member imports.
    execArgv: ['--unhandled-rejections=strict'],
    env: { ...process.env, NODE_OPTIONS: '', ...env, MEMBER_INDEX: String(index) },
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    serialization: 'advanced',
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`Member ${index} could not be forked`)
  child.once('exit', guard(pid))

  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  const exited = exitOf(child)
  let exit: MemberExit | undefined
  void exited.then((value) => {
    exit = value
  })
  const port = await listeningPort(child, exited, () => stderr)

  const kill = async () => {
    signal(pid, 'SIGKILL')
    return exited
  }
  return {
    index,
    pid,
    url: `http://127.0.0.1:${port}`,
    stderr: () => stderr,
    exit: () => exit,
    pause: () => void signal(pid, 'SIGSTOP'),
    resume: () => void signal(pid, 'SIGCONT'),
    kill,
    async stop(withinMs = 30_000) {
      if (exit) return exit
      signal(pid, 'SIGTERM')
      // A frozen process does not receive SIGTERM before it continues.
      signal(pid, 'SIGCONT')
      const timer = setTimeout(kill, withinMs)
      return exited.finally(() => clearTimeout(timer))
    },
    ask: (message, withinMs) => ask(child, message, withinMs),
  }
}

// 'close' and not 'exit', because only at 'close' standard error has been read to its end.
async function exitOf(child: ChildProcess): Promise<MemberExit> {
  await once(child, 'close')
  return { code: child.exitCode, signal: child.signalCode }
}

async function listeningPort(
  child: ChildProcess,
  exited: Promise<MemberExit>,
  stderr: () => string,
  withinMs = 60_000,
): Promise<number> {
  let timer: NodeJS.Timeout | undefined
  const port = new Promise<number>((resolve, reject) => {
    child.on('message', (message: MemberMessage) => {
      if (message.type === 'listening') resolve(message.port)
    })
    timer = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`A member does not listen after ${withinMs} ms; stderr:\n${stderr()}`))
    }, withinMs)
  })
  const early = exited.then(({ code }) => {
    throw new Error(`A member exited with code ${code} before it listened; stderr:\n${stderr()}`)
  })
  return Promise.race([port, early]).finally(() => clearTimeout(timer))
}

let lastId = 0

function ask<Reply>(child: ChildProcess, message: unknown, withinMs = 30_000): Promise<Reply> {
  const id = ++lastId
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      child.off('message', onMessage)
      child.off('close', onClose)
    }
    const fail = (reason: string) => {
      end()
      reject(new Error(reason))
    }
    const onMessage = (reply: MemberMessage) => {
      if (reply.type !== 'reply' || reply.id !== id) return
      if (reply.error !== undefined) return fail(reply.error)
      end()
      // The test that writes the script's half of the messages knows the type.
      resolve(reply.value as Reply)
    }
    const onClose = () => fail('The member exited before it replied')
    const timer = setTimeout(() => fail(`No reply from the member in ${withinMs} ms`), withinMs)
    child.on('message', onMessage)
    child.on('close', onClose)
    if (!child.connected) return onClose()
    child.send({ type: 'ask', id, message }, (error) => error && fail(error.message))
  })
}
