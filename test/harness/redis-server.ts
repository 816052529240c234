// Real Redis servers for tests: started, frozen, killed and started again; counted from outside.
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
  /** Default: a free one. */
  readonly port?: number
  /** Default: the one that global set-up found. To be given outside of Vitest. */
  readonly source?: RedisSource
  /** Further variables of its environment; only for a binary. */
  readonly env?: NodeJS.ProcessEnv
}

export interface RedisServer extends AsyncDisposable {
  readonly url: string
  readonly host: string
  readonly port: number
  /** Whether it replies within `withinMs` (default 1000), on a connection of its own. */
  answers(withinMs?: number): Promise<boolean>
  /** Freezes it: connections stay open and are still accepted, nothing answers. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Ends it without warning, as a crash would; also when it is paused. */
  kill(): Promise<void>
  /** Kills it if it runs, and starts it on the same port: empty, statistics at zero. */
  restart(): Promise<void>
  stop(): Promise<void>
  /** Calls per command since the start, without the harness's own; see `clientCommands`. */
  commandStats(): Promise<CommandStats>
  /** Follows every command with its sender until `stop()`; see `sentByClients`. */
  traceCommands(): Promise<CommandTrace>
}

/** Starts a Redis that keeps nothing on disk, and resolves when it answers. */
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
    // Where data is kept on disk: it answers, and refuses most, until it has read them.
    const loaded = async () => (await askRedis(address, 'INFO persistence')).includes('\nloading:0')
    await waitUntil('Redis has its data', loaded)
    // Whatever made sure that it is ready (Testcontainers has its own check) does not count.
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
