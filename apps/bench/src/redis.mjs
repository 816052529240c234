// A Redis for one run: REDIS_URL if it is set, else a server of our own on a free port.
// @ts-check
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Redis } from 'ioredis'

/** @returns {Promise<{ url: string, version: string, stop(): Promise<void> }>} */
export async function openRedis() {
  const given = process.env.REDIS_URL
  if (given) return { url: given, version: await versionOf(given), stop: async () => {} }
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', args, { stdio: 'ignore' })
  child.once('error', () => {
    console.error('bench: no redis-server on the PATH; install it, or set REDIS_URL')
    process.exit(1)
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `redis://127.0.0.1:${port}`
  const version = await versionOf(url)
  return {
    url,
    version,
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

/** @param {string} url */
async function versionOf(url) {
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  client.on('error', () => {})
  const info = await client.info('server')
  client.disconnect()
  return /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown'
}

/** Calls of these commands since the last CONFIG RESETSTAT. @param {Redis} client @param {string[]} names */
export async function commandCalls(client, names) {
  const info = await client.info('commandstats')
  const calls = [...info.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)]
  return calls
    .filter(([, name = '']) => names.includes(name))
    .reduce((sum, [, , n]) => sum + Number(n), 0)
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  server.close()
  await once(server, 'close')
  return port
}
