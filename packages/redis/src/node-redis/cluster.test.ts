import { EventEmitter } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import type { Connection } from '../connection/connection.ts'
import { NodeRedisCluster } from './cluster.ts'

type Reply = (command: string) => unknown

class FakeNode extends EventEmitter {
  status = 'ready'
  readonly #reply: Reply

  constructor(reply: Reply) {
    super()
    this.#reply = reply
    setImmediate(() => this.emit('ready'))
  }

  callBuffer = async (command: string): Promise<unknown> => this.#reply(command)
  subscribe = async () => {}
  ping = async () => {}
  disconnect() {}
}

const opened: NodeRedisCluster[] = []
afterEach(() => {
  for (const each of opened.splice(0)) each.disconnect()
})

/** A cluster of these nodes. The first one is the only seed. */
async function open(nodes: Record<string, Reply>): Promise<NodeRedisCluster> {
  const unknown = (name: string) => () => {
    throw new Error(`unknown node ${name}`)
  }
  const cluster = new NodeRedisCluster({
    open: (host, port) => {
      const name = `${host}:${port}`
      return new FakeNode(nodes[name] ?? unknown(name)) as unknown as Connection
    },
    seeds: Object.keys(nodes).slice(0, 1),
    connectMs: 100,
  })
  opened.push(cluster)
  cluster.on('error', () => {})
  await expect.poll(() => cluster.status).toBe('ready')
  return cluster
}

/** CLUSTER SLOTS of a node that has all slots, and otherwise a redirection. */
const redirecting =
  (host: string, port: number, redirection: string): Reply =>
  (command) => {
    if (command === 'CLUSTER') return [[0, 16_383, [Buffer.from(host), port]]]
    throw new Error(redirection)
  }

it.each([
  ['another host', 'm2:2', 'm2:2'],
  ['the same host, which the node does not know', ':2', 'm:2'],
  ['an IPv6 address', '::1:2', '::1:2'],
])('a command follows a redirection to %s', async (_, target, name) => {
  for (const kind of ['MOVED', 'ASK']) {
    const cluster = await open({
      'm:1': redirecting('m', 1, `${kind} 0 ${target}`),
      [name]: () => 'found',
    })
    expect(await cluster.callBuffer('GET', 'k')).toBe('found')
  }
})
