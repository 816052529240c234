// Handlers on Fastify that write a head to `reply.raw` themselves: the same as without a plugin.

import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import fastify, { type FastifyReply } from 'fastify'
import { describe, expect, it } from 'vitest'
import { idempotency, stampedeCache } from './index.ts'

const OWN = { 'x-own': 'yes', 'x-front': 'own' }

/** The forms of writeHead. */
const HEADS: Record<string, readonly unknown[]> = {
  '(status)': [203],
  '(status, fields)': [203, OWN],
  '(status, message, fields)': [203, 'Own', OWN],
  '(status, array)': [203, Object.entries(OWN).flat()],
}

/** Steps of the handler after its writeHead. */
const ENDS: Record<string, (reply: FastifyReply, seen: unknown[]) => unknown> = {
  'raw.end': ({ raw }) => void raw.end('own'),
  'raw.write': ({ raw }) => {
    raw.write('own ')
    raw.end('words')
  },
  'reply.hijack': (reply) => {
    reply.hijack()
    reply.raw.end('own')
  },
  'raw.headersSent': ({ raw }, seen) => {
    seen.push(raw.headersSent)
    raw.end('own')
  },
  'a second writeHead': ({ raw }, seen) => {
    seen.push(codeOf(() => raw.writeHead(404, { 'x-second': 'yes' })))
    raw.end('own')
  },
  'raw.setHeader': ({ raw }, seen) => {
    seen.push(codeOf(() => raw.setHeader('x-late', 'yes')))
    raw.end('own')
  },
  'reply.send of a stream': (reply) => reply.send(Readable.from([Buffer.from('own')])),
  'reply.send of a string': (reply) => reply.send('text'),
  'a throw': () => {
    throw new Error('late')
  },
}

function codeOf(act: () => unknown): unknown {
  try {
    act()
    return 'done'
  } catch (error) {
    return Object(error).code
  }
}

const PLUGINS = {
  GET: () => stampedeCache({ ttlMs: 60_000, cacheStatus: false }),
  POST: () => idempotency({ scope: () => 'ada' }),
}
const METHODS = ['GET', 'POST'] as const

interface Got {
  readonly status?: string
  readonly fields?: Readonly<Record<string, unknown>>
  readonly body?: string
  readonly error?: string
}

/** An app whose handler writes its own head, and then ends in the way `end`. */
async function start(method: 'GET' | 'POST', head: string, end: string, hasPlugin: boolean) {
  const app = fastify()
  let [requests, runs] = [0, 0]
  app.addHook('onRequest', async (_request, reply) => {
    if (++requests === 1) reply.header('x-front', 'own')
  })
  if (hasPlugin) app.register(PLUGINS[method]())
  const seen: unknown[] = []
  app.route({
    method,
    url: '/a',
    handler: async (_request, reply) => {
      runs += 1
      reply.header('x-app', 'yes')
      Reflect.apply(reply.raw.writeHead, reply.raw, HEADS[head] as [])
      await ENDS[end]?.(reply, seen)
      return reply
    },
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return {
    seen,
    runs: () => runs,
    ask: () => ask(port, method),
    async [Symbol.asyncDispose]() {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}

function ask(port: number, method: string): Promise<Got> {
  return new Promise((resolve) => {
    const sent = request({ port, method, path: '/a', headers: { 'idempotency-key': 'k' } })
    sent.setTimeout(2_000, () => sent.destroy(new Error('hangs')))
    sent.on('error', ({ message }) => resolve({ error: message }))
    sent.on('response', async (response) => {
      const { statusCode, statusMessage, headers } = response
      const { date: _, ...fields } = headers
      let body = ''
      for await (const chunk of response) body += chunk
      resolve({ status: `${statusCode} ${statusMessage}`, fields, body })
    })
    sent.end()
  })
}

const rows = Object.keys(HEADS).flatMap((head) =>
  Object.keys(ENDS).map((end) => [head, end] as const),
)

describe.each(METHODS)('a plugin for %s on Fastify', (method) => {
  it.each(rows)('sends and shares what the app sends by writeHead%s and %s', async (head, end) => {
    await using plain = await start(method, head, end, false)
    await using app = await start(method, head, end, true)
    const first = await app.ask()
    expect([first, app.seen]).toEqual([await plain.ask(), plain.seen])
    const second = await app.ask()
    if (first.error !== undefined) {
      // The head of the POST was sent, so the request counts as carried out.
      expect(method === 'GET' ? second : second.status).toEqual(
        method === 'GET' ? first : '409 Conflict',
      )
      return
    }
    const shared = ({ status, fields, body }: Got) => [
      status?.slice(0, 3),
      fields?.['x-own'],
      fields?.['x-front'],
      body,
    ]
    expect([shared(second), app.runs()]).toEqual([shared(first), 1])
  })
})
