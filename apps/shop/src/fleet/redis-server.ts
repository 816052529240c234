// A Redis server of the demo's own on a free port, if this machine has the program. The lab can
// freeze it.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '../settings.ts'
import { signal, type Watchdog } from './watchdog.ts'

const PROGRAMS = ['redis-server', 'valkey-server']
const START_MS = 10_000

export interface RedisServer {
  readonly url: string
  freeze(): void
  resume(): void
  stop(): Promise<void>
}

/** Returns the path of the program, or undefined if none is on the `PATH`. */
export function findRedisServer(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  const files = PROGRAMS.flatMap((name) => folders.map((folder) => join(folder, name)))
  return files.find(isExecutable)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Throws `StartError` if the server does not start. */
export async function startRedisServer(program: string, watchdog: Watchdog): Promise<RedisServer> {
  const port = await freePort()
  // Nothing is written to disk: the data ends with the demo.
  const fixed = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()]
  const child = spawn(program, ['--port', String(port), ...fixed], {
    stdio: 'ignore',
    // Ctrl-C in a terminal would end it before the shop has given back its leases.
    detached: true,
  })
  const ended = once(child, 'exit').catch(() => {})
  if (child.pid !== undefined) void ended.then(watchdog.guard(child.pid))
  await accepting(child, program, port)
  const send = (name: NodeJS.Signals) => {
    if (child.pid !== undefined && child.exitCode === null) signal(child.pid, name)
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    freeze: () => send('SIGSTOP'),
    resume: () => send('SIGCONT'),
    async stop() {
      send('SIGKILL')
      await ended
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function accepting(child: ChildProcess, program: string, port: number): Promise<void> {
  const startedAt = performance.now()
  while (!(await accepts(port))) {
    const isOver = child.exitCode !== null || child.pid === undefined
    if (isOver || performance.now() - startedAt > START_MS) {
      child.kill('SIGKILL')
      throw new StartError(
        `${program} does not start on port ${port}; set REDIS_URL, or PROCESSES=1 to run without Redis`,
      )
    }
    await sleep(20)
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
