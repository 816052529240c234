// Watching a head changes nothing, and misses none. Fields are added and removed in every form.

import { ServerResponse } from 'node:http'
import type { CapturedHead } from '@stampede/core/adapter'
import { describe, expect, it, test } from 'vitest'
import { fieldOf, rawRequest, serve } from '../testing/raw-client.ts'
import { addAtHead, watchHead } from './head.ts'

const WAYS: Record<string, (res: ServerResponse) => void> = {
  'writeHead with headers': (res) => res.writeHead(201, { Location: '/x' }).end('made'),
  'writeHead with a message and pairs': (res) => {
    res.writeHead(201, 'Made', ['Location', '/x'])
    res.end()
  },
  'end alone': (res) => {
    res.statusCode = 201
    res.setHeader('Location', '/x')
    res.end('made')
  },
  write: (res) => {
    res.statusCode = 201
    res.setHeader('Location', '/x')
    res.write('ma')
    res.end('de')
  },
  flushHeaders: (res) => {
    res.statusCode = 201
    res.setHeader('Location', '/x')
    res.flushHeaders()
    res.end('made')
  },
}

describe('watchHead', () => {
  it.each(Object.entries(WAYS))(
    'calls its listener once for a head sent by %s',
    async (_, answer) => {
      const heads: CapturedHead[] = []
      await using server = await serve((_req, res) => {
        watchHead(res, (head) => {
          expect(res.headersSent).toBe(false)
          heads.push(head)
        })
        answer(res)
      })
      const response = await rawRequest(server.port)
      expect(response.head[0]).toMatch(/^HTTP\/1.1 201 /)
      expect(fieldOf(response, 'location')).toEqual(['/x'])
      expect(heads.map(({ status }) => status)).toEqual([201])
      expect(heads[0]?.headers).toContainEqual(['location', '/x'])
    },
  )

  it('calls its listener for a response whose client has left', () => {
    const res = new ServerResponse({ method: 'POST', headers: {} } as never)
    const heads: CapturedHead[] = []
    watchHead(res, (head) => heads.push(head))
    res.on('error', () => {})
    res.destroy()
    res.statusCode = 202
    res.end('accepted')
    expect(heads).toEqual([{ status: 202, headers: [] }])
  })

  it('calls its listener once for a response that ends without a write', () => {
    const res = new ServerResponse({ method: 'POST', headers: {} } as never)
    const heads: CapturedHead[] = []
    const stands = watchHead(res, (head) => heads.push(head))
    res.statusCode = 204
    stands()
    stands()
    res.end()
    expect(heads).toEqual([{ status: 204, headers: [] }])
  })
})

const OWN = 'X-Own'

const FORMS: ReadonlyArray<readonly [name: string, answer: (res: ServerResponse) => unknown]> = [
  ['setHeader', (res) => res.setHeader(OWN, '1').setHeader('X-A', 'a').end()],
  ['setHeader with lines', (res) => res.setHeader(OWN, ['1', '2']).setHeader('X-A', 'a').end()],
  [
    'flushHeaders',
    (res) => [res.setHeader(OWN, '1').setHeader('X-A', 'a'), res.flushHeaders(), res.end()],
  ],
  ['write', (res) => [res.setHeader(OWN, '1').setHeader('X-A', 'a'), res.write('x'), res.end()]],
  ['an object', (res) => res.writeHead(200, { [OWN]: '1', 'X-A': 'a' }).end()],
  [
    'an object after a message',
    (res) => res.writeHead(200, 'Fine', { [OWN]: ['1', '2'], 'X-A': 'a' }).end(),
  ],
  ['a flat array', (res) => res.writeHead(200, [OWN, '1', 'X-A', 'a', 'x-own', '2']).end()],
  [
    'an array of pairs',
    (res) =>
      (
        Reflect.apply(res.writeHead, res, [
          200,
          [
            ['x-OWN', '1'],
            ['X-A', 'a'],
          ],
        ]) as ServerResponse
      ).end(),
  ],
  [
    'setHeader and writeHead',
    (res) =>
      res
        .setHeader(OWN, '1')
        .writeHead(200, { [OWN]: '2', 'X-A': 'a' })
        .end(),
  ],
  ['no such field', (res) => res.writeHead(200, { 'X-A': 'a' }).end()],
]

describe.each(FORMS)('a response head written with %s', (_, answer) => {
  test.each([[[]], [[['cache-status', 'S']] as const]])(
    'loses one field and gets %j',
    async (add) => {
      await using server = await serve((_req, res) => {
        addAtHead(res, add, ['x-own'])
        answer(res)
      })
      const response = await rawRequest(server.port)
      expect(fieldOf(response, 'x-own')).toEqual([])
      expect(fieldOf(response, 'x-a')).toEqual(['a'])
      expect(fieldOf(response, 'cache-status')).toEqual(add.map(([, value]) => value))
    },
  )
})

test('the headers object that the handler passes to writeHead is not changed', async () => {
  const given = { [OWN]: '1', 'X-A': 'a' }
  const list = [OWN, '1', 'X-A', 'a']
  await using server = await serve((req, res) => {
    addAtHead(res, [], ['x-own'])
    if (req.url === '/list') res.writeHead(200, list).end()
    else res.writeHead(200, given).end()
  })
  for (const path of ['/', '/list']) {
    expect(fieldOf(await rawRequest(server.port, path), 'x-own')).toEqual([])
  }
  expect(given).toEqual({ [OWN]: '1', 'X-A': 'a' })
  expect(list).toEqual([OWN, '1', 'X-A', 'a'])
})
