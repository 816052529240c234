// A Redis Cluster of three masters, put together by hand: no other tool than the server is needed.
import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

const SLOTS = 16_384
const MASTERS = 3
/** The nodes talk to each other on a port that is so much higher. */
const BUS = 10_000

export interface RedisCluster extends AsyncDisposable {
  readonly nodes: readonly RedisServer[]
  /** The node that holds a key. */
  nodeOf(key: string): Promise<RedisServer>
}

export async function startCluster(): Promise<RedisCluster> {
  const nodes: RedisServer[] = []
  const admins: Redis[] = []
  const stop = async () => {
    for (const admin of admins) admin.disconnect()
    await Promise.all(nodes.map((node) => node.stop()))
  }
  try {
    for (let n = 0; n < MASTERS; n++) {
      const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000']
      const node = await startRedis({ port: await portWithBus(), args })
      nodes.push(node)
      admins.push(new Redis(node.url))
    }
    await join(nodes, admins)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    nodes,
    async nodeOf(key) {
      const slot = Number(await admins[0]?.cluster('KEYSLOT', key))
      return nodes[masterOf(slot)] as RedisServer
    },
    [Symbol.asyncDispose]: stop,
  }
}

const masterOf = (slot: number) => Math.floor((slot * MASTERS) / SLOTS)

async function join(nodes: readonly RedisServer[], admins: readonly Redis[]): Promise<void> {
  const slots = Array.from({ length: SLOTS }, (_, slot) => slot)
  for (const [n, admin] of admins.entries()) {
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', n + 1)
    await admin.call('CLUSTER', 'ADDSLOTS', ...slots.filter((slot) => masterOf(slot) === n))
  }
  for (const { host, port } of nodes.slice(1)) await admins[0]?.call('CLUSTER', 'MEET', host, port)
  await waitUntil('the nodes are a cluster', async () => {
    const infos = await Promise.all(admins.map((admin) => admin.call('CLUSTER', 'INFO')))
    return infos.every(
      (info) => /cluster_state:ok/.test(String(info)) && /known_nodes:3/.test(String(info)),
    )
  })
}

async function portWithBus(): Promise<number> {
  for (;;) {
    const port = await freePort()
    if (port + BUS < 65_536) return port
  }
}
