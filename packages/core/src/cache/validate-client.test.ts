import { describe, expect, it } from 'vitest'
import type { HeaderList, RequestView } from '../ports/exchange.ts'
import { type LeaderHead, leaderReply } from './validate.ts'

const NOW = Date.parse('Thu, 01 Jan 2026 00:00:00 GMT')

function reply(range: string, headers: HeaderList, more: Partial<LeaderHead> = {}): unknown {
  const request: RequestView = {
    method: 'GET',
    scheme: 'http',
    host: 'shop.test',
    target: '/',
    headers: { range },
  }
  const head = { status: 200, headers, refused: undefined }
  const facts = { minted: [], cacheStatus: [], wallNow: NOW }
  return leaderReply(request, { ...head, ...facts, whole: undefined, ...more })
}

const length = (value: string): HeaderList => [['content-length', value]]

describe("the response to the leader's client", () => {
  it('is cut to a range only if its Content-Length is a number', () => {
    expect(reply('bytes=0-1', length('10'))).toMatchObject({ status: 206, start: 0, end: 2 })
    for (const value of ['', '+10', '1e1', '0x10', '10, 10', ' 10', '-10', '10.0', 'ten'])
      expect(reply('bytes=0-1', length(value)), value).toBeUndefined()
  })

  it('is sent in full if Content-Length is not the length of the body', () => {
    const whole = new Uint8Array(9)
    expect(reply('bytes=0-1', length('10'), { whole })).toBeUndefined()
    expect(reply('bytes=0-1', [], { whole })).toMatchObject({ end: 2 })
  })

  it('is sent in full if the handler frames the body itself, or sends a range itself', () => {
    expect(reply('bytes=0-1', [...length('10'), ['transfer-encoding', 'chunked']])).toBeUndefined()
    expect(reply('bytes=0-1', [...length('10'), ['content-range', 'bytes 0-9/99']])).toBeUndefined()
  })

  it('is cut to a range of an unstored response if the handler offers ranges, or if it is too large', () => {
    const offers = (value: string): HeaderList => [...length('10'), ['accept-ranges', value]]
    const own = { refused: 'private' }
    for (const value of ['none', '', 'kilobytes', 'x-bytes-x'])
      expect(reply('bytes=0-1', offers(value), own), value).toBeUndefined()
    for (const value of ['bytes', 'Bytes', 'lines, bytes'])
      expect(reply('bytes=0-1', offers(value), own), value).toMatchObject({ status: 206 })
    const large = { refused: 'too-large' }
    expect(reply('bytes=0-1', offers('none'), large)).toMatchObject({ status: 206 })
  })

  it('has no-transform once if it is cut, so that compression does not change it', () => {
    const cached = (value: string): HeaderList => [...length('10'), ['cache-control', value]]
    const said = (headers: HeaderList) => (reply('bytes=0-1', headers) as LeaderPart).fields[2]?.[1]
    expect(said(length('10'))).toBe('no-transform')
    expect(said(cached('max-age=1'))).toBe('max-age=1, no-transform')
    expect(said(cached('No-Transform, max-age=1'))).toBe('No-Transform, max-age=1')
  })
})

interface LeaderPart {
  readonly fields: HeaderList
}
