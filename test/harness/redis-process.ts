// A Redis that runs as a process of this machine, controlled by signals.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { guard, signal } from './guard.ts'

/**
 * The life of one server, as a process or in a container. `start` returns before the server is
 * ready.
 */
export interface RedisHost {
  readonly host: string
  start(): Promise<void>
  /** Why a started server has ended. Undefined while it runs. */
  failure(): string | undefined
  pause(): Promise<void>
  resume(): Promise<void>
  kill(): Promise<void>
  /** Ends the server and removes its files. */
  remove(): Promise<void>
}

/**
 * Starts a Sentinel if `sentinel` names its configuration file. `env`: further environment
 * variables.
 */
export function redisProcess(
  path: string,
  port: number,
  args: readonly string[],
  sentinel?: string,
  env: NodeJS.ProcessEnv = {},
): RedisHost {
  let child: ChildProcess | undefined
  let folder: string | undefined
  let output = ''

  const running = () => child && child.exitCode === null && child.signalCode === null
  const send = (name: NodeJS.Signals) => {
    if (child?.pid !== undefined && running()) signal(child.pid, name)
  }

  async function kill(): Promise<void> {
    if (!child || !running()) return
    const exited = once(child, 'exit')
    send('SIGKILL')
    await exited
  }

  return {
    host: '127.0.0.1',
    async start() {
      folder ??= await mkdtemp(join(tmpdir(), 'stampede-redis-'))
      output = ''
      const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
      const kind = sentinel === undefined ? ['--save', '', '--appendonly', 'no'] : ['--sentinel']
      // A Sentinel rewrites its file while it runs.
      const file = sentinel === undefined ? [] : [join(folder, 'sentinel.conf')]
      for (const name of file) await writeFile(name, sentinel ?? '')
      const all = [...file, ...fixed, ...kind, ...args]
      child = spawn(path, all, {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, ...env },
      })
      const collect = (chunk: Buffer) => {
        output = (output + chunk).slice(-4_000)
      }
      child.stdout?.on('data', collect)
      child.stderr?.on('data', collect)
      await once(child, 'spawn')
      if (child.pid !== undefined) child.once('exit', guard(child.pid))
    },
    failure() {
      return running() ? undefined : `${path} is not running; its last output:\n${output}`
    },
    async pause() {
      send('SIGSTOP')
    },
    async resume() {
      send('SIGCONT')
    },
    kill,
    async remove() {
      await kill()
      if (folder) await rm(folder, { recursive: true, force: true })
    },
  }
}
