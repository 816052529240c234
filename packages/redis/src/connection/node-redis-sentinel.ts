// Opens the connections of one store to the master that Sentinels name, by plain clients of
// node-redis.

import type { Connections } from './connection.ts'
import { textOf } from './newest-master.ts'
import { clientOptions, timesOf } from './node-redis.ts'
import type {
  Address,
  NodeRedisAttempt,
  NodeRedisClient,
  NodeRedisPlainClient,
  NodeRedisSentinel,
} from './node-redis-client.ts'
import { NodeRedisConnection } from './node-redis-connection.ts'
import { Sentinels } from './sentinels.ts'

export function connectNodeRedisSentinel(redis: NodeRedisSentinel, budgetMs: number): Connections {
  const { name, sentinelRootNodes, nodeClientOptions, sentinelClientOptions } = redis
  const times = timesOf(budgetMs)
  const create = redis.createClient as (options: object) => NodeRedisClient
  // All clients are copies of one, because createClient builds a class, which takes long.
  const base = create({ RESP: 2 })
  const duplicate = base.duplicate.bind(base) as (options: object) => NodeRedisPlainClient
  const openerOf = (given: object = {}, overrides: object = {}) => {
    const options = { ...given, ...clientOptions(given, budgetMs), ...overrides }
    return (address: Address): NodeRedisAttempt => {
      const client = duplicate({ ...options, socket: { ...options.socket, ...address } })
      return { client, connecting: client.connect() }
    }
  }
  const openMaster = openerOf(nodeClientOptions)
  // With RESP2, a connection that subscribes could not ask for the master.
  const openSentinel = openerOf(sentinelClientOptions, { RESP: 3 })
  const connections: MasterConnection[] = []
  const sentinels = new Sentinels({
    name,
    nodes: sentinelRootNodes,
    askMs: times.connectMs / 2,
    open: (node) =>
      new NodeRedisConnection({ open: () => openSentinel(node), ...times, reconnects: true }),
    onMoved: (master) => {
      for (const each of connections) each.leaveUnlessAt(master)
    },
  })
  const connect = () => {
    const { connection, leaveUnlessAt } = connectToMaster(
      () => sentinels.find(),
      (master) => openMaster(mapped(master, redis.nodeAddressMap)),
      times,
    )
    connections.push({ connection, leaveUnlessAt })
    connection.on('end', () => {
      if (connections.every((each) => each.connection.status === 'end')) sentinels.close()
    })
    return connection
  }
  return { commands: connect(), subscriber: connect() }
}

interface MasterConnection {
  readonly connection: NodeRedisConnection
  /** Connects again if the master is another server than that of the connection. */
  leaveUnlessAt(master: Address): void
}

function connectToMaster(
  find: () => Promise<Address>,
  open: (master: Address) => NodeRedisAttempt,
  times: ReturnType<typeof timesOf>,
): MasterConnection {
  /** Empty while the Sentinels are asked. */
  let at = ''
  const connection = new NodeRedisConnection({
    locate: () => {
      at = ''
      return find()
    },
    open: (master) => {
      at = textOf(master as Address)
      return open(master as Address)
    },
    verify: requireMaster,
    ...times,
    reconnects: true,
  })
  return {
    connection,
    leaveUnlessAt: (master) => {
      if (at !== '' && at !== textOf(master)) connection.disconnect(true)
    },
  }
}

/** After a fail-over, Sentinels that have not heard of it still name the former master. */
async function requireMaster(client: NodeRedisPlainClient): Promise<void> {
  const info = await client.sendCommand(['INFO', 'replication'], {}).catch((error: Error) => {
    if (error.message.startsWith('NOPERM')) return 'role:master'
    throw error
  })
  if (!String(info).includes('role:master')) {
    throw new Error('the server that the Sentinels named is not a master')
  }
}

/** The address at which this process reaches the server, as in node-redis. */
function mapped(address: Address, map: NodeRedisSentinel['nodeAddressMap']): Address {
  const found = typeof map === 'function' ? map(textOf(address)) : map?.[textOf(address)]
  return found ?? address
}
