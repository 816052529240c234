// Watching a head changes nothing, and misses none.

import { ServerResponse } from 'node:http'
import type { CapturedHead } from '@stampede/core/adapter'
import { describe, expect, it } from 'vitest'
import { fieldOf, rawRequest, serve } from '../testing/raw-client.ts'
import { watchHead } from './watch-head.ts'

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
