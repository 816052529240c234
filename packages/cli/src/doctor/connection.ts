// The connections of the doctor: one per server, and one for messages.

import type { Cluster, Redis } from 'ioredis'
import { Unreachable } from '../errors.ts'
import {
  connectProbe,
  hasCluster,
  openClient,
  openProbe,
  type Settings,
  shownUrl,
} from '../fleet.ts'

/** One server, or one master of a cluster. */
export interface Node {
  readonly name: string
  readonly redis: Redis
}

export interface Connections extends Disposable {
  /** Sends commands to the server that has the key of the command. */
  readonly client: Pick<Redis, 'call'>
  /** Number of the database, which is part of the names of channels. */
  readonly database: number
  readonly nodes: readonly Node[]
  readonly isCluster: boolean
  /** A connection that only subscribes. */
  readonly subscriber: Redis
}

/** Rejects with `Unreachable` if the server does not accept the connection or its PING. */
export async function openConnections(settings: Settings): Promise<Connections> {
  const [probe, subscriber] = [openProbe(settings), openProbe(settings)]
  let cluster: Cluster | undefined
  const close = () => {
    for (const each of [probe, subscriber, cluster]) each?.disconnect()
  }
  try {
    await connectProbe(probe, settings)
    await firstPing(probe, settings)
    await connectProbe(subscriber, settings)
    const isCluster = await hasCluster(probe, settings)
    if (isCluster) {
      cluster = openClient(settings, true) as unknown as Cluster
      cluster.on('error', () => {})
      await cluster.connect()
    }
    const nodes = cluster?.nodes('master').map(nodeOf) ?? [{ name: '', redis: probe }]
    const client = (cluster ?? probe) as Redis
    const database = isCluster ? 0 : (probe.options.db ?? 0)
    return { client, database, nodes, isCluster, subscriber, [Symbol.dispose]: close }
  } catch (error) {
    close()
    throw error
  }
}

async function firstPing(probe: Redis, settings: Settings): Promise<void> {
  try {
    await probe.ping()
  } catch (error) {
    const { message, name } = error as Error
    const where = shownUrl(settings)
    if (name === 'ReplyError' && !message.startsWith('NOPERM')) {
      throw new Unreachable(`${where} refuses PING: ${message}`)
    }
    if (name === 'ReplyError') return
    throw new Unreachable(
      `${where} accepts connections, but did not reply to PING within ${settings.timeoutMs} ms`,
    )
  }
}

function nodeOf(redis: Redis): Node {
  return { name: `${redis.options.host}:${redis.options.port}`, redis }
}
