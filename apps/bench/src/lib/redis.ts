// A Redis server of its own, which a run can freeze, kill, and start again with its data.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { listen } from './http.ts'

export interface RedisServer extends AsyncDisposable {
  readonly port: number
  readonly url: string
  readonly pid: number
  readonly version: string
  readonly kill: () => Promise<void>
  readonly restart: () => Promise<void>
}

export const urlOf = (port: number): string => `redis://127.0.0.1:${port}`

/** `isDurable`: Redis writes every change to disk before it acknowledges it. */
export async function startRedis({ isDurable = false } = {}): Promise<RedisServer> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'stampede-bench-'))
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '']
  args.push('--appendonly', isDurable ? 'yes' : 'no', '--appendfsync', 'always')
  const launch = () =>
    spawn('redis-server', args, { stdio: 'ignore' }).once('error', () => {
      console.error('bench: no redis-server on the PATH; install it')
      process.exit(1)
    })
  let child = launch()
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return {
    port,
    url: urlOf(port),
    get pid() {
      return child.pid ?? 0
    },
    version: /redis_version:(\S+)/.exec(await info(port))?.[1] ?? '?',
    kill,
    async restart() {
      await kill()
      child = launch()
      await info(port)
    },
    async [Symbol.asyncDispose]() {
      await kill()
      process.off('exit', atExit)
      rmSync(folder, { recursive: true })
    },
  }
}

/** Resolves when the server replies. */
async function info(port: number): Promise<string> {
  const client = new Redis(port, { maxRetriesPerRequest: null, retryStrategy: () => 20 })
  client.on('error', () => {})
  const text = await client.info('server')
  client.disconnect()
  return text
}

/** The sum of the calls of these commands, as Redis counts them. */
export async function commandCalls(client: Redis, names: readonly string[]): Promise<number> {
  const text = await client.info('commandstats')
  const calls = [...text.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)]
  return calls
    .filter(([, name = '']) => names.includes(name))
    .reduce((sum, [, , count]) => sum + Number(count), 0)
}

async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  server.close()
  await once(server, 'close')
  return port
}
