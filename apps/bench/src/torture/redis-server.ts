// A Redis for one cell. The scenario freezes it, makes it refuse commands, or kills it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { freePort } from '../free-port.ts'

export interface RedisServer extends AsyncDisposable {
  readonly port: number
  readonly pid: number
  readonly version: string
}

export async function startRedis(): Promise<RedisServer> {
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', args, { stdio: 'ignore' })
  child.once('error', () => {
    console.error('bench: no redis-server on the PATH; install it')
    process.exit(1)
  })
  // SIGKILL also ends a frozen process.
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  const client = new Redis(urlOf(port), { maxRetriesPerRequest: null, retryStrategy: () => 20 })
  client.on('error', () => {})
  const info = await client.info('server')
  client.disconnect()
  return {
    port,
    pid: child.pid ?? 0,
    version: /redis_version:(\S+)/.exec(info)?.[1] ?? '?',
    async [Symbol.asyncDispose]() {
      process.off('exit', atExit)
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

export const urlOf = (port: number): string => `redis://127.0.0.1:${port}`
