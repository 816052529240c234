// The connections of the doctor: one per server, and one for messages.

import type { Cluster, Redis } from 'ioredis'
import { Unreachable } from '../errors.ts'
import { connectProbe, openClient, openProbe, type Settings, shownUrl } from '../fleet.ts'

/** Sends commands to the server that has the key of the command. */
export interface Commander {
  /** Number of the database, which is part of the names of channels. */
  readonly database: number
  call(command: string, ...args: Array<string | number>): Promise<unknown>
  trySubscribe(channels: readonly string[]): Promise<'accepted' | 'refused'>
}

/** One server, or one master of a cluster. */
export interface Node {
  readonly name: string
  readonly redis: Redis
}

export interface Connections {
  readonly commander: Commander
  readonly nodes: readonly Node[]
  readonly isCluster: boolean
  /** A connection that only subscribes. */
  readonly subscriber: Redis
  close(): void
}

/** Rejects with `Unreachable` if the server does not accept the connection or its PING. */
export async function openConnections(settings: Settings): Promise<Connections> {
  const [probe, subscriber] = [openProbe(settings), openProbe(settings)]
  let cluster: Cluster | undefined
  const close = () => {
    probe.disconnect()
    subscriber.disconnect()
    cluster?.disconnect()
  }
  try {
    await connectProbe(probe, settings)
    await firstPing(probe, settings)
    await connectProbe(subscriber, settings)
    const info = await probe.info('cluster').catch(() => '')
    const isCluster = info.includes('cluster_enabled:1')
    if (isCluster) {
      cluster = openClient(settings, true) as unknown as Cluster
      cluster.on('error', () => {})
      await cluster.connect()
    }
    const nodes = cluster?.nodes('master').map(nodeOf) ?? [{ name: '', redis: probe }]
    const client = cluster ?? probe
    return {
      commander: {
        database: isCluster ? 0 : (probe.options.db ?? 0),
        call: (command, ...args) => client.call(command, ...args.map(String)),
        trySubscribe: (channels) => trySubscribe(subscriber, channels),
      },
      nodes,
      isCluster,
      subscriber,
      close,
    }
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

async function trySubscribe(
  subscriber: Redis,
  channels: readonly string[],
): Promise<'accepted' | 'refused'> {
  try {
    await subscriber.subscribe(...channels)
    await subscriber.unsubscribe(...channels)
    return 'accepted'
  } catch (error) {
    if ((error as Error).name !== 'ReplyError') throw error
    return 'refused'
  }
}

function nodeOf(redis: Redis): Node {
  return { name: `${redis.options.host}:${redis.options.port}`, redis }
}
