import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import request from 'supertest'
import { expect, it, onTestFinished } from 'vitest'
import type { Address } from '../fire.ts'
import { createFront } from './front.ts'

async function serve(listener: RequestListener): Promise<Server> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return server
}

const addressOf = (server: Server): Address => ({
  host: '127.0.0.1',
  port: (server.address() as AddressInfo).port,
})

/** A front before the servers, each in turn. */
async function front(...servers: Server[]) {
  let turn = 0
  const next = () => {
    const server = servers[turn++ % servers.length]
    return server === undefined ? undefined : addressOf(server)
  }
  const { listener, close } = createFront(next, () => false)
  onTestFinished(close)
  return serve(listener)
}

it('ends open event streams on demand', async () => {
  const server = await serve((_message, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
  })
  const { listener, closeStreams } = createFront(
    () => addressOf(server),
    () => false,
  )
  const { port } = addressOf(await serve(listener))
  const body = (await fetch(`http://127.0.0.1:${port}/`)).body?.getReader()
  await body?.read()
  closeStreams()
  await expect(body?.read()).rejects.toThrow('terminated')
})

const echo: RequestListener = async (message, response) => {
  let body = ''
  for await (const chunk of message) body += chunk
  const { method, url, headers } = message
  response.setHeader('set-cookie', ['a=1', 'b=2'])
  response.statusCode = 201
  response.end(JSON.stringify({ method, url, headers, body }))
}

it('passes on method, path, Host, fields and body, and the response as it is', async () => {
  const server = await front(await serve(echo))
  const reply = await request(server)
    .post('/api/x?y=%20')
    .set({ host: 'localhost:1', 'x-customer': 'ada' })
    .send({ a: 1 })
  expect(reply.status).toBe(201)
  expect(reply.headers['set-cookie']).toEqual(['a=1', 'b=2'])
  const seen = JSON.parse(reply.text)
  expect(seen).toMatchObject({ method: 'POST', url: '/api/x?y=%20', body: '{"a":1}' })
  expect(seen.headers).toMatchObject({ host: 'localhost:1', 'x-customer': 'ada' })
  expect(seen.headers.forwarded).toBeUndefined()
})

it('sends a GET again, to the next process, if the connection breaks', async () => {
  const dying = await serve((message) => message.socket.destroy())
  const server = await front(dying, await serve(echo))
  await request(server).get('/').expect(201)
})

it('sends a GET again to another process, although other requests took their turns', async () => {
  let turn = 0
  const servers: Server[] = []
  const next = () => addressOf(servers[turn++ % servers.length] as Server)
  const dying = await serve((message) => {
    next()
    next()
    message.socket.destroy()
  })
  servers.push(dying, await serve(echo), await serve(echo))
  const { listener, close } = createFront(next, () => false)
  onTestFinished(close)
  await request(await serve(listener))
    .get('/')
    .expect(201)
})

it('never sends a POST twice', async () => {
  let posts = 0
  const dying = await serve((message: IncomingMessage) => {
    posts++
    message.socket.destroy()
  })
  const server = await front(dying)
  await request(server).post('/').send({ a: 1 }).expect(503)
  expect(posts).toBe(1)
})

it('responds 503 if no process is up', async () => {
  const { body } = await request(await front())
    .get('/')
    .expect(503)
  expect(body.title).toBe('No process')
})
