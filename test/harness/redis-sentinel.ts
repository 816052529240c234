// A real master with a replica and three Sentinels, and a fail-over.
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import type { RedisSource } from './find-redis.ts'
import { freePort } from './free-port.ts'
import { type RedisHost, redisProcess } from './redis-process.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

const NAME = 'stampede'
const QUORUM = 2
const IOREDIS = { '6': Redis, '5': Redis5 as unknown as typeof Redis } as const

export interface SentinelBench extends AsyncDisposable {
  readonly master: RedisServer
  readonly replica: RedisServer
  /** A client that asks the Sentinels who is master; disconnected by `stop` at the latest. */
  client(version?: keyof typeof IOREDIS, options?: object): Redis
  /** Cuts the replica off from the master: it keeps what it has, and misses all that comes. */
  lag(): Promise<void>
  /** Resolves when the replica has everything that the master has. */
  inSync(): Promise<void>
  /** Kills the master. Resolves when all Sentinels name the replica as master, with how long that took. */
  failOver(): Promise<{ tookMs: number }>
  /** The same on request, with the master alive: it becomes the replica. */
  switchOver(): Promise<{ tookMs: number }>
  stop(): Promise<void>
}

interface Options {
  readonly source?: RedisSource
  /** How long a master is silent before it counts as down. */
  readonly downAfterMs?: number
}

export async function startSentinels({ source, downAfterMs = 500 }: Options = {}) {
  const given = source === undefined ? {} : { source }
  const master = await startRedis(given)
  const following = ['--replicaof', master.host, String(master.port)]
  const replica = await startRedis({ ...given, args: following })
  const ports = [await freePort(), await freePort(), await freePort()]
  const hosts: RedisHost[] = []
  const path = source?.kind === 'binary' ? source.path : 'redis-server'
  for (const port of ports) {
    hosts.push(redisProcess(path, port, [], configuration(master, downAfterMs)))
  }
  const bench = running(master, replica, ports, hosts)
  try {
    for (const host of hosts) await host.start()
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
): SentinelBench & { ready(): Promise<void> } {
  const clients: Redis[] = []
  const connect = (url: string) => {
    const client = new Redis(url)
    client.on('error', () => {})
    clients.push(client)
    return client
  }
  const onReplica = connect(replica.url)
  const sentinels = ports.map((port) => connect(`redis://127.0.0.1:${port}`))
  const masterPort = async (sentinel: Redis) => {
    const address = await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)
    return Number((address as string[])[1])
  }
  const replicated = async () => (await onReplica.info('replication')).includes('link_status:up')
  const moved = async (begin: () => Promise<unknown> | undefined) => {
    const begunAt = performance.now()
    await begin()
    const isNamed = async () => {
      const found = await Promise.all(sentinels.map(masterPort))
      return found.every((port) => port === replica.port)
    }
    await waitUntil('the Sentinels name a new master', isNamed, 20_000)
    return { tookMs: performance.now() - begunAt }
  }
  const stop = async (): Promise<void> => {
    for (const client of clients) client.disconnect()
    await Promise.all([master.stop(), replica.stop(), ...hosts.map((host) => host.remove())])
  }
  return {
    master,
    replica,
    client(version = '6', options = {}) {
      const addresses = ports.map((port) => ({ host: '127.0.0.1', port }))
      const client = new IOREDIS[version]({ sentinels: addresses, name: NAME, ...options })
      client.on('error', () => {})
      clients.push(client)
      return client
    },
    async ready() {
      await waitUntil('the replica follows', replicated)
      await waitUntil('the Sentinels know each other and the replica', async () => {
        const known = await Promise.all(sentinels.map((each) => whoIsKnown(each)))
        return known.every((text) => text === 'replicas 1, sentinels 2')
      })
    },
    async lag() {
      // Nobody listens there. Sentinels mend this, but not within eight seconds.
      await onReplica.call('REPLICAOF', '127.0.0.1', await freePort())
    },
    async inSync() {
      const onMaster = connect(master.url)
      expectOne(await onMaster.wait(1, 5_000))
      onMaster.disconnect()
    },
    failOver: () => moved(() => master.kill()),
    switchOver: () => moved(() => sentinels[0]?.call('SENTINEL', 'FAILOVER', NAME)),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function whoIsKnown(sentinel: Redis): Promise<string> {
  const flat = (await sentinel.call('SENTINEL', 'MASTER', NAME)) as string[]
  const field = (name: string) => flat[flat.indexOf(name) + 1]
  return `replicas ${field('num-slaves')}, sentinels ${field('num-other-sentinels')}`
}

function expectOne(replicas: number): void {
  if (replicas < 1) throw new Error('the replica did not follow within 5 s')
}
