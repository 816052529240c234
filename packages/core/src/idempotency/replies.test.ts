import { UNKNOWN_PROVENANCE } from '../entry/entry.ts'
// The response to a duplicate. Refusals are in refusals.test.ts.

import { describe, expect, it } from 'vitest'
import type { HeaderList, RequestView } from '../ports/exchange.ts'
import type { Settled } from './begin.ts'
import { type Kept, keptWithoutBody } from './kept-response.ts'
import { replyFor } from './replies.ts'

const requestWith = (headers: RequestView['headers']): RequestView => ({
  method: 'POST',
  scheme: 'http',
  host: 'shop.test',
  target: '/orders',
  headers,
})
const reply = (settled: Settled, headers: RequestView['headers'] = {}) =>
  replyFor(settled, undefined, { request: requestWith(headers), isSet: () => false })
const done = (kept: Kept, from: 'l1' | 'store' | 'wait' = 'store'): Settled => ({
  type: 'done',
  kept,
  from,
})
const problemOf = ({ reply: { body } }: ReturnType<typeof replyFor>) =>
  JSON.parse(Buffer.from(body ?? []).toString())

const body = Buffer.from('made')
const kept = (headers: HeaderList = [], bytes: Uint8Array = body): Kept => ({
  type: 'response',
  status: 201,
  headers,
  body: bytes,
})

describe('a replayed response', () => {
  it.each([
    ['l1', 'replayed-l1'],
    ['store', 'replayed'],
    ['wait', 'replayed-after-wait'],
  ] as const)('from %s has the outcome %s', (from, outcome) => {
    expect(reply(done(kept([['etag', '"1"']]), from))).toEqual({
      outcome,
      reply: {
        status: 201,
        headers: [
          ['etag', '"1"'],
          ['idempotency-replayed', 'true'],
        ],
        body,
      },
    })
  })

  it('keeps repeated fields, and bytes that are not text', () => {
    const headers: HeaderList = [
      ['link', '</a>'],
      ['link', '</b>'],
    ]
    const bytes = Buffer.from([0, 255, 10])
    const { reply: again } = reply(done(kept(headers, bytes)))
    expect(again.headers.slice(0, 2)).toEqual(headers)
    expect(again.body).toEqual(bytes)
  })
})

describe('a response that was not retained', () => {
  it('is replayed as a problem response with the original status and Location', () => {
    const answer = reply(
      done(keptWithoutBody({ status: 303, headers: [['location', '/orders/7']] })),
    )
    expect(answer.outcome).toBe('not-retained')
    expect(problemOf(answer)).toMatchObject({ originalStatus: 303, originalLocation: '/orders/7' })
  })

  it('gets the same problem response as an unreadable entry or the result of a job', () => {
    const value: Kept = {
      type: 'value',
      stored: {
        type: 'value',
        encoding: 'json',
        body: Buffer.from('1'),
        provenance: UNKNOWN_PROVENANCE,
      },
    }
    for (const settled of [done(value), { type: 'unreadable' } as const]) {
      const answer = reply(settled)
      expect(answer.outcome).toBe('not-retained')
      expect(problemOf(answer)).toMatchObject({ status: 409, retryable: false })
      expect(problemOf(answer)).not.toHaveProperty('originalStatus')
    }
  })
})
