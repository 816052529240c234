// Real Redis servers for tests: started, frozen, killed and restarted, with statistics from
// outside.
import { inject } from 'vitest'
import { type CommandStats, parseCommandStats } from './command-stats.ts'
import { type CommandTrace, traceCommands } from './command-trace.ts'
import type { RedisSource } from './find-redis.ts'
import { freePort } from './free-port.ts'
import { type RedisHost, redisProcess } from './redis-process.ts'
import { askRedis } from './redis-wire.ts'
import { waitUntil } from './wait-until.ts'

export interface RedisOptions {
  /** Further arguments of redis-server, such as `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[]
  /** Default: a free port. */
  readonly port?: number
  /** Default: the Redis that global set-up found. Required outside of Vitest. */
  readonly source?: RedisSource
  /** Further environment variables. Only for a binary. */
  readonly env?: NodeJS.ProcessEnv
}

export interface RedisServer extends AsyncDisposable {
  readonly url: string
  readonly host: string
  readonly port: number
  /** Whether the server replies within `withinMs` (default 1000), on a connection of its own. */
  answers(withinMs?: number): Promise<boolean>
  /**
   * Freezes the server. Connections stay open and are still accepted, but no command gets a reply.
   */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Kills the server without warning, as in a crash, also while it is paused. */
  kill(): Promise<void>
  /**
   * Kills the server if it runs, and starts it on the same port: empty, with statistics at zero.
   */
  restart(): Promise<void>
  stop(): Promise<void>
  /** Calls per command since the start, without the harness's own. */
  commandStats(): Promise<CommandStats>
  /** Records every command with its sender until `stop()`. See `sentByClients`, `countSent`. */
  traceCommands(): Promise<CommandTrace>
}

/** Starts a Redis that stores nothing on disk. Resolves when it replies. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const { args = [] } = options
  const port = options.port ?? (await freePort())
  const source = options.source ?? inject('redisSource')
  const server = await hostFrom(source, port, args, options.env)
  const address = { host: server.host, port }

  const answers = (withinMs = 1_000) =>
    askRedis(address, 'ECHO ready', withinMs).then(
      (reply) => reply === 'ready',
      () => false,
    )

  async function start(): Promise<void> {
    await server.start()
    await waitUntil('Redis answers', () => {
      const failure = server.failure()
      if (failure) throw new Error(failure)
      return answers()
    })
    // With data on disk, the server replies while it loads them, and refuses most commands.
    const loaded = async () => (await askRedis(address, 'INFO persistence')).includes('\nloading:0')
    await waitUntil('Redis has its data', loaded)
    // Statistics start here, without the commands of ready checks (Testcontainers has its own).
    await askRedis(address, 'CONFIG RESETSTAT')
  }

  try {
    await start()
  } catch (error) {
    await server.remove()
    throw error
  }

  return {
    url: `redis://${address.host}:${port}`,
    ...address,
    answers,
    pause: server.pause,
    resume: server.resume,
    kill: server.kill,
    async restart() {
      await server.kill()
      await start()
    },
    stop: server.remove,
    async commandStats() {
      return parseCommandStats(await askRedis(address, 'INFO commandstats'))
    },
    traceCommands: () => traceCommands(address),
    [Symbol.asyncDispose]: server.remove,
  }
}

async function hostFrom(
  source: RedisSource,
  port: number,
  args: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<RedisHost> {
  if (source.kind === 'binary') return redisProcess(source.path, port, args, undefined, env)
  if (env !== undefined) throw new Error('startRedis: env needs a redis-server on the PATH')
  const { redisContainer } = await import('./redis-container.ts')
  return redisContainer(source.image, port, args)
}
