// A real Redis Cluster for tests, created and resharded by plain commands.
import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5 } from 'ioredis5'
import { slotOf } from '../../packages/redis/src/connection/cluster.ts'
import type { RedisSource } from './find-redis.ts'
import { freeClusterPort } from './free-port.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

const SLOTS = 16_384
const GUEST_SLOTS = 8
const IOREDIS = { '6': Cluster, '5': Cluster5 as unknown as typeof Cluster } as const
export type Version = keyof typeof IOREDIS

export interface ClusterMember extends RedisServer {
  readonly id: string
  /** A connection of the harness to this node alone. */
  readonly admin: Redis
}

export interface RedisCluster extends AsyncDisposable {
  /** The masters. */
  readonly nodes: readonly ClusterMember[]
  /** One replica for each master that the option `replicated` names. */
  readonly replicas: readonly ClusterMember[]
  /** A client that starts with the addresses of all nodes. `stop` disconnects it at the latest. */
  client(version?: Version, options?: object): Cluster
  slotOf(key: string): number
  /** The node that has this slot now. */
  ownerOf(slot: number): ClusterMember
  /** Moves slots with their keys one by one, as `redis-cli --cluster reshard` does. */
  reshard(slots: readonly number[], from: ClusterMember, to: ClusterMember): Promise<void>
  /** Begins to move a slot, and moves no key until the returned function is called. */
  holdMigration(slot: number, from: ClusterMember, to: ClusterMember): Promise<() => Promise<void>>
  /** Removes a node without slots from the cluster. It continues to run on its own. */
  forget(node: ClusterMember): Promise<void>
  stop(): Promise<void>
}

interface Options {
  readonly masters?: number
  /** Further masters with few slots each, so that they can leave soon. */
  readonly guests?: number
  /** Indexes of the masters that get a replica. */
  readonly replicated?: readonly number[]
  readonly source?: RedisSource
  /** Further environment variables of all nodes. */
  readonly env?: NodeJS.ProcessEnv
  /** The silence of a node after which it counts as down. */
  readonly nodeTimeoutMs?: number
}

export async function startRedisCluster(options: Options = {}): Promise<RedisCluster> {
  const { masters = 3, guests = 0, replicated = [] } = options
  const start = (length: number) => Promise.all(Array.from({ length }, () => startNode(options)))
  const [nodes, replicas] = await Promise.all([start(masters + guests), start(replicated.length)])
  const all = [...nodes, ...replicas]
  const clients: Array<{ disconnect(): void }> = all.map(({ admin }) => admin)
  const stop = async (): Promise<void> => {
    for (const client of clients) client.disconnect()
    await Promise.all(all.map((node) => node.stop()))
  }
  try {
    const owners = await form(nodes, masters)
    for (const [i, replica] of replicas.entries()) {
      await replicate(replica, nodes[replicated[i] as number] as ClusterMember)
    }
    return { ...running(nodes, owners, clients, stop), replicas }
  } catch (error) {
    await stop()
    throw error
  }
}

function running(
  nodes: ClusterMember[],
  owners: ClusterMember[],
  clients: Array<{ disconnect(): void }>,
  stop: () => Promise<void>,
): Omit<RedisCluster, 'replicas'> {
  let members = nodes
  const move = async (slot: number, from: ClusterMember, to: ClusterMember): Promise<void> => {
    await open(slot, from, to)
    await moveKeys(slot, from, to)
    await setSlot(to, slot, 'NODE', to.id)
    // A node that lost its last slot is a replica by now, and needs no command.
    for (const node of members) await setSlot(node, slot, 'NODE', to.id).catch(unlessReplica)
    owners[slot] = to
    // Otherwise the next owner might count from an older epoch, and be overruled.
    await waitUntil('all nodes know of the move', async () => {
      const infos = members.map(({ admin }) => admin.call('CLUSTER', 'INFO'))
      const epochs = (await Promise.all(infos)).map((info) => /current_epoch:\d+/.exec(`${info}`))
      return new Set(epochs.map(String)).size === 1
    })
  }
  return {
    nodes,
    client(version = '6', options = {}) {
      const client = new IOREDIS[version](
        nodes.map(({ host, port }) => ({ host, port })),
        options,
      )
      client.on('error', () => {})
      clients.push(client)
      return client
    },
    slotOf,
    ownerOf: (slot) => owners[slot] as ClusterMember,
    async reshard(slots, from, to) {
      for (const slot of slots) await move(slot, from, to)
    },
    async holdMigration(slot, from, to) {
      await open(slot, from, to)
      return () => move(slot, from, to)
    },
    async forget(node) {
      members = members.filter((each) => each !== node)
      await node.admin.call('CLUSTER', 'RESET')
      await Promise.all(members.map(({ admin }) => admin.call('CLUSTER', 'FORGET', node.id)))
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function startNode(options: Options): Promise<ClusterMember> {
  const { source, env, nodeTimeoutMs = 2_000 } = options
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(nodeTimeoutMs)]
  const port = await freeClusterPort()
  const server = await startRedis({ args, port, ...(source && { source }), ...(env && { env }) })
  const admin = new Redis(server.url)
  admin.on('error', () => {})
  return { ...server, admin, id: String(await admin.call('CLUSTER', 'MYID')) }
}

/**
 * Assigns equal ranges of slots, and an epoch to each node, so that no epochs collide when the
 * nodes meet.
 */
async function form(nodes: readonly ClusterMember[], masters: number): Promise<ClusterMember[]> {
  const owners = Array.from({ length: SLOTS }, (_, slot) => {
    const guest = nodes[masters + Math.floor(slot / GUEST_SLOTS)]
    return guest ?? (nodes[Math.floor((slot * masters) / SLOTS)] as ClusterMember)
  })
  const [first, ...others] = nodes
  for (const [i, node] of nodes.entries()) {
    const slots = [...owners.keys()].filter((slot) => owners[slot] === node)
    await node.admin.call('CLUSTER', 'ADDSLOTS', ...slots)
    await node.admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
  }
  for (const { host, port } of others) await first?.admin.call('CLUSTER', 'MEET', host, port)
  await waitUntil('all nodes agree on the cluster', async () => {
    const infos = await Promise.all(nodes.map(({ admin }) => admin.call('CLUSTER', 'INFO')))
    const wanted = ['cluster_state:ok', `cluster_size:${nodes.length}\r`]
    return infos.every((info) => wanted.every((line) => String(info).includes(line)))
  })
  // Until then, a message published at one node may not arrive at another.
  await waitUntil('all nodes are connected to each other', async () => {
    const views = await Promise.all(nodes.map(({ admin }) => admin.call('CLUSTER', 'NODES')))
    return views.every((view) => {
      const lines = String(view).trim().split('\n')
      return lines.length === nodes.length && lines.every((line) => / connected( |$)/.test(line))
    })
  })
  return owners
}

async function replicate(replica: ClusterMember, master: ClusterMember): Promise<void> {
  await replica.admin.call('CLUSTER', 'MEET', master.host, master.port)
  await waitUntil('the replica knows its master', async () =>
    String(await replica.admin.call('CLUSTER', 'NODES')).includes(master.id),
  )
  await replica.admin.call('CLUSTER', 'REPLICATE', master.id)
  await waitUntil('the replica follows', async () =>
    (await replica.admin.info('replication')).includes('link_status:up'),
  )
}

const setSlot = (node: ClusterMember, slot: number, ...how: string[]): Promise<unknown> =>
  node.admin.call('CLUSTER', 'SETSLOT', slot, ...how)

function unlessReplica(error: Error): void {
  if (!error.message.includes('only with masters')) throw error
}

async function open(slot: number, from: ClusterMember, to: ClusterMember): Promise<void> {
  await setSlot(to, slot, 'IMPORTING', from.id)
  await setSlot(from, slot, 'MIGRATING', to.id)
}

async function moveKeys(slot: number, from: ClusterMember, to: ClusterMember): Promise<void> {
  for (;;) {
    const keys = (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]
    if (keys.length === 0) return
    await from.admin.call('MIGRATE', to.host, to.port, '', 0, 5_000, 'KEYS', ...keys)
  }
}
