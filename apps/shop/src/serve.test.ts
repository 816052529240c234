import { once } from 'node:events'
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { connectRedis } from './connect-redis.ts'
import { drain, listen } from './serve.ts'
import { StartError } from './settings.ts'

const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port

async function ask(server: Server, agent: Agent): Promise<IncomingMessage> {
  const [message] = await once(get({ port: portOf(server), agent }), 'response')
  return message.resume()
}

describe('listen', () => {
  it('names the port that is taken, and the fix', async () => {
    const first = await listen(createServer(), 0)
    const port = portOf(first)
    await expect(listen(createServer(), port)).rejects.toThrow(
      new StartError(
        `PORT=${port}: another program listens there; stop it, or choose another port, e.g. PORT=3000`,
      ),
    )
    await drain(first)
  })
})

describe('drain', () => {
  it('lets a request finish, closes idle connections, and accepts nothing new', async () => {
    const server = await listen(createServer(), 0)
    server.keepAliveTimeout = 60_000
    const agent = new Agent({ keepAlive: true })
    const received = ask(server, agent)
    const [, response] = await once(server, 'request')
    const stopped = drain(server, 60_000)
    await expect(ask(server, new Agent())).rejects.toThrow()
    response.end('done')
    expect((await received).statusCode).toBe(200)
    // Otherwise agent and server would keep the connection for a minute.
    await stopped
    agent.destroy()
  })

  it('closes connections that have not finished in time', async () => {
    const server = await listen(createServer(), 0)
    const cutOff = expect(ask(server, new Agent())).rejects.toThrow('socket hang up')
    await once(server, 'request')
    await drain(server, 10)
    await cutOff
  })
})

describe('connectRedis', () => {
  it('returns undefined without REDIS_URL', async () => {
    expect(await connectRedis({ redisUrl: undefined })).toBeUndefined()
  })

  it('names an address where nothing listens, and the fix, without the password', async () => {
    const closed = createTcpServer().listen(0)
    const port = portOf(closed)
    closed.close()
    await once(closed, 'close')
    const url = `redis://:secret@127.0.0.1:${port}`
    await expect(connectRedis({ redisUrl: url })).rejects.toThrow(
      new StartError(
        `REDIS_URL=redis://127.0.0.1:${port}: cannot use it (connect ECONNREFUSED 127.0.0.1:${port}); ` +
          'start Redis there, correct the URL, or unset it to run without Redis',
      ),
    )
  })

  it('names an address where another server listens', async () => {
    const other = createTcpServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    other.listen(0)
    await once(other, 'listening')
    const url = `redis://127.0.0.1:${portOf(other)}`
    await expect(connectRedis({ redisUrl: url })).rejects.toThrow(`REDIS_URL=${url}: cannot use it`)
    other.close()
  })
})
