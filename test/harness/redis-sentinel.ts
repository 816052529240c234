// A real master with a replica and three Sentinels, and a fail-over.
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import type { RedisSource } from './find-redis.ts'
import { freePort } from './free-port.ts'
import { type RedisHost, redisProcess } from './redis-process.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { askRedis } from './redis-wire.ts'
import { waitUntil } from './wait-until.ts'

const NAME = 'stampede'
const QUORUM = 2
/** A bound for the set-up. A busy machine may stop a Sentinel for long. */
const SET_UP_MS = 120_000
const IOREDIS = { '6': Redis, '5': Redis5 as unknown as typeof Redis } as const
type Version = keyof typeof IOREDIS

export interface SentinelBench extends AsyncDisposable {
  /** Name of the master. */
  readonly name: string
  readonly sentinels: ReadonlyArray<{ readonly host: string; readonly port: number }>
  readonly master: RedisServer
  readonly replica: RedisServer
  /** A client that asks the Sentinels for the master. `stop` disconnects it at the latest. */
  client(version?: Version, options?: object): Redis
  /** Cuts the replica off from the master. It keeps its data, and misses all later writes. */
  lag(): Promise<void>
  /** Resolves when the follower (default: the replica) has all data of the leader (the master). */
  inSync(leader?: RedisServer, follower?: RedisServer): Promise<void>
  /**
   * Kills the master. Resolves when all Sentinels name the replica as master, with the time that
   * took.
   */
  failOver(): Promise<{ tookMs: number }>
  /** The same on request, while the master runs. It becomes the replica. */
  switchOver(): Promise<{ tookMs: number }>
  /** Runs `begin`, and resolves when all Sentinels name `heir` as master. */
  takeOver(heir: RedisServer, begin: () => unknown): Promise<{ tookMs: number }>
  /** Freezes one Sentinel. */
  pauseSentinel(index: number): Promise<void>
  resumeSentinel(index: number): Promise<void>
  /** Sets the silence after which a master counts as down. */
  downAfter(ms: number): Promise<void>
  stop(): Promise<void>
}

interface Options {
  readonly source?: RedisSource
  /** Further environment variables of both servers. */
  readonly env?: NodeJS.ProcessEnv
  /** The silence of a master after which it counts as down. */
  readonly downAfterMs?: number
  /** Further arguments of both servers. */
  readonly args?: readonly string[]
}

export async function startSentinels(options: Options = {}) {
  const { source, downAfterMs = 500, args = [], env } = options
  const given = { args, ...(source && { source }), ...(env && { env }) }
  const master = await startRedis(given)
  const replica = await startRedis(given)
  await askRedis(replica, `REPLICAOF ${master.host} ${master.port}`)
  const ports = [await freePort(), await freePort(), await freePort()]
  const hosts: RedisHost[] = []
  const path = source?.kind === 'binary' ? source.path : 'redis-server'
  for (const port of ports) {
    hosts.push(redisProcess(path, port, [], configuration(master, downAfterMs)))
  }
  const bench = running(master, replica, ports, hosts)
  try {
    await bench.replicated()
    await Promise.all(hosts.map((host) => host.start()))
    await bench.ready()
  } catch (error) {
    await bench.stop()
    throw error
  }
  return bench
}

const configuration = ({ host, port }: RedisServer, downAfterMs: number): string =>
  [
    `sentinel monitor ${NAME} ${host} ${port} ${QUORUM}`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${NAME} 2000`,
    `sentinel parallel-syncs ${NAME} 1`,
    '',
  ].join('\n')

function running(
  master: RedisServer,
  replica: RedisServer,
  ports: readonly number[],
  hosts: readonly RedisHost[],
): SentinelBench & { replicated(): Promise<void>; ready(): Promise<void> } {
  const clients = new Clients()
  const onReplica = clients.connect(replica.url)
  const sentinels = ports.map((port) => clients.connect(`redis://127.0.0.1:${port}`))
  const takeOver = (heir: RedisServer, begin: () => unknown) =>
    untilNamed(sentinels, heir.port, begin)
  const stop = async (): Promise<void> => {
    clients.disconnect()
    await Promise.all([master.stop(), replica.stop(), ...hosts.map((host) => host.remove())])
  }
  return {
    name: NAME,
    sentinels: ports.map((port) => ({ host: '127.0.0.1', port })),
    master,
    replica,
    client: (version = '6', options = {}) => clients.ask(ports, version, options),
    // A Sentinel asks the master for its replicas when it starts, and then only every ten seconds.
    replicated: () =>
      waitUntil(
        'the replica follows',
        async () => (await onReplica.info('replication')).includes('link_status:up'),
        SET_UP_MS,
      ),
    async ready() {
      let known: string[] = []
      const isComplete = async () => {
        known = await Promise.all(sentinels.map(whoIsKnown))
        return known.every((text) => text === 'replicas 1, sentinels 2, master')
      }
      await waitUntil('the Sentinels know each other and the replica', isComplete, SET_UP_MS).catch(
        (error) => {
          throw new Error(`${error.message}; known: ${known.join('; ')}`)
        },
      )
    },
    async lag() {
      // No server listens there. Sentinels repair this, but not within eight seconds.
      await onReplica.call('REPLICAOF', '127.0.0.1', await freePort())
    },
    inSync: (leader = master, follower = replica) =>
      waitUntil('the replica has everything', () => hasAll(leader, follower)),
    failOver: () => takeOver(replica, () => master.kill()),
    switchOver: () => takeOver(replica, () => sentinels[0]?.call('SENTINEL', 'FAILOVER', NAME)),
    takeOver,
    pauseSentinel: async (index) => hosts[index]?.pause(),
    resumeSentinel: async (index) => hosts[index]?.resume(),
    async downAfter(ms) {
      const set = ['SET', NAME, 'down-after-milliseconds', String(ms)]
      await Promise.all(sentinels.map((each) => each.call('SENTINEL', ...set)))
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

class Clients {
  readonly #all: Redis[] = []

  connect(url: string): Redis {
    return this.#keep(new Redis(url))
  }

  ask(ports: readonly number[], version: Version, options: object): Redis {
    const sentinels = ports.map((port) => ({ host: '127.0.0.1', port }))
    return this.#keep(new IOREDIS[version]({ sentinels, name: NAME, ...options }))
  }

  disconnect(): void {
    for (const client of this.#all) client.disconnect()
  }

  #keep(client: Redis): Redis {
    client.on('error', () => {})
    this.#all.push(client)
    return client
  }
}

async function untilNamed(
  sentinels: readonly Redis[],
  port: number,
  begin: () => unknown,
): Promise<{ tookMs: number }> {
  const begunAt = performance.now()
  await begin()
  const portSaidBy = async (sentinel: Redis) => {
    const address = await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)
    return Number((address as string[])[1])
  }
  await waitUntil(
    'the Sentinels name a new master',
    async () => (await Promise.all(sentinels.map(portSaidBy))).every((said) => said === port),
    20_000,
  )
  return { tookMs: performance.now() - begunAt }
}

/** The replica has at least the offset that the master had at the call. */
async function hasAll(master: RedisServer, replica: RedisServer): Promise<boolean> {
  const infoOf = (server: RedisServer) => askRedis(server, 'INFO replication')
  const offset = (info: string, field: string) =>
    Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1])
  const wanted = offset(await infoOf(master), 'master_repl_offset')
  const reached = await infoOf(replica)
  // A former master has an offset of its own until it follows the new one.
  return reached.includes('link_status:up') && offset(reached, 'slave_repl_offset') >= wanted
}

async function whoIsKnown(sentinel: Redis): Promise<string> {
  const flat = (await sentinel.call('SENTINEL', 'MASTER', NAME)) as string[]
  const field = (name: string) => flat[flat.indexOf(name) + 1]
  const seen = `replicas ${field('num-slaves')}, sentinels ${field('num-other-sentinels')}`
  return `${seen}, ${field('flags')}`
}
