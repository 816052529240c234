// Removing and adding fields in every form of writeHead.

import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { fieldOf, rawRequest, serve } from '../testing/raw-client.ts'
import { addAtHead } from './write-head.ts'

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
