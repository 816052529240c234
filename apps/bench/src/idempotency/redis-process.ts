// A Redis for one case. It can be killed without warning, and started again with its data.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from '../free-port.ts'

export interface RedisProcess extends AsyncDisposable {
  readonly url: string
  readonly version: string
  readonly kill: () => Promise<void>
  readonly restart: () => Promise<void>
  /** The longest TTL of its keys in ms. 0 without keys. */
  readonly longestTtlMs: () => Promise<number>
}

export async function startRedis(): Promise<RedisProcess> {
  const port = await freePort()
  const url = `redis://127.0.0.1:${port}`
  const dir = await mkdtemp(join(tmpdir(), 'stampede-idempotency-'))
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '']
  // Acknowledged writes must survive the crash. Otherwise a library would fail because of Redis.
  args.push('--appendonly', 'yes', '--appendfsync', 'always')
  const launch = () => spawn('redis-server', args, { stdio: 'ignore' })
  let child = launch()
  const atExit = () => child.kill('SIGKILL')
  process.once('exit', atExit)
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return {
    url,
    version:
      /redis_version:(\S+)/.exec(await asking(url, (admin) => admin.info('server')))?.[1] ?? '?',
    kill,
    async restart() {
      await kill()
      child = launch()
      await asking(url, (admin) => admin.ping())
    },
    longestTtlMs: () => asking(url, longestTtlMs),
    async [Symbol.asyncDispose]() {
      await kill()
      process.off('exit', atExit)
      await rm(dir, { recursive: true })
    },
  }
}

async function asking<T>(url: string, ask: (admin: Redis) => Promise<T>): Promise<T> {
  const admin = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  admin.on('error', () => {})
  try {
    return await ask(admin)
  } finally {
    admin.disconnect()
  }
}

async function longestTtlMs(admin: Redis): Promise<number> {
  const ttls = await Promise.all((await admin.keys('*')).map((key) => admin.pttl(key)))
  return Math.max(0, ...ttls)
}
