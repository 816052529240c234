import { createServer, IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { expect, it } from 'vitest'
import { deferHead, exposeReply } from './fastify-reply.ts'

const OF_REPLY = { 'x-own': 'new', link: ['<a>', '<b>'], missing: undefined }
const REPLY = { [Symbol('fields')]: OF_REPLY }

async function responseOf(write: (res: ServerResponse) => void) {
  const heads: unknown[][] = []
  const server = createServer((_req, res) => {
    const { writeHead } = res
    Object.assign(res, {
      writeHead: (...args: unknown[]) => {
        heads.push(args)
        return Reflect.apply(writeHead, res, args)
      },
    })
    deferHead(Object.assign({ raw: res }, REPLY))
    write(res)
  }).listen(0)
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const body = await response.text()
  server.close()
  return { heads, status: response.status, headers: response.headers, body }
}

it('writes the status and the fields of the head together with the body', async () => {
  const got = await responseOf((res) => {
    res.setHeader('X-Own', 'old')
    res.writeHead(201, OF_REPLY as never)
    expect(res.headersSent).toBe(false)
    res.end('made')
  })
  expect([got.status, got.body, got.heads]).toEqual([201, 'made', [[201]]])
  expect([got.headers.get('x-own'), got.headers.get('link')]).toEqual(['new', '<a>, <b>'])
})

it.each([[['Fine', { 'x-own': 'yes' }]], [[['X-Own', 'yes']]], [[{ 'x-own': 'yes' }]]])(
  'passes a head of the app at once: %j',
  async (args) => {
    const got = await responseOf((res) => {
      Reflect.apply(res.writeHead, res, [202, ...args])
      expect(res.headersSent).toBe(true)
      res.end()
    })
    expect([got.heads, got.headers.get('x-own')]).toEqual([[[202, ...args]], 'yes'])
  },
)

it('sets fields that the response does not have, and removes only those again', () => {
  const res = new ServerResponse(new IncomingMessage(new Socket()))
  res.setHeader('X-Raw', 'raw')
  const fields = { 'x-raw': 'other', link: ['<a>', '<b>'], none: undefined }
  const hide = exposeReply({ raw: res, getHeaders: () => fields })
  expect({ ...res.getHeaders() }).toEqual({ 'x-raw': 'raw', link: ['<a>', '<b>'] })
  hide()
  expect({ ...res.getHeaders() }).toEqual({ 'x-raw': 'raw' })
})
