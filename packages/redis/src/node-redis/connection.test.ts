import { EventEmitter } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import {
  type NodeRedisAttempt,
  NodeRedisConnection,
  type NodeRedisPlainClient,
} from './connection.ts'

class FakeClient extends EventEmitter {
  connect = async () => {}
  sendCommand = async () => 'OK'
  subscribe = async () => {}
  destroy() {}
}

const times = { connectMs: 500, replyMs: 500, reconnects: true }
const opened: NodeRedisConnection[] = []
afterEach(() => {
  for (const each of opened.splice(0)) each.disconnect()
})

/** An attempt whose client is ready in the next turn. */
function attempt(): NodeRedisAttempt {
  const client = new FakeClient()
  setImmediate(() => {
    client.emit('connect')
    client.emit('ready')
  })
  return { client: client as unknown as NodeRedisPlainClient, connecting: Promise.resolve() }
}

it.each([
  ['at once', {}],
  ['after the address was found', { locate: async () => ({ host: 'm', port: 1 }) }],
])('a connection reports an open() that throws %s, and tries again', async (_, options) => {
  let attempts = 0
  const open = () => {
    attempts += 1
    if (attempts === 1) throw new Error('nodeAddressMap has no such address')
    return attempt()
  }
  const connection = new NodeRedisConnection({ open, ...times, ...options })
  opened.push(connection)
  const errors: string[] = []
  connection.on('error', ({ message }: Error) => errors.push(message))
  await expect.poll(() => connection.status).toBe('ready')
  expect(errors).toEqual(['nodeAddressMap has no such address'])
})

it('a closed connection reports no open() that threw before', async () => {
  const open = () => {
    throw new Error('nodeAddressMap has no such address')
  }
  const connection = new NodeRedisConnection({ open, ...times })
  const errors: Error[] = []
  connection.on('error', (error: Error) => errors.push(error))
  connection.disconnect()
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(errors).toEqual([])
  expect(connection.status).toBe('end')
})
