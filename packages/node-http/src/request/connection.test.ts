import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createDetachedPair } from '../revalidation.ts'
import { hasLogin } from './read-request.ts'

function requestOn(socket: Socket, authorization?: string): IncomingMessage {
  const req = new IncomingMessage(socket)
  if (authorization !== undefined) req.headers = { authorization }
  return req
}

describe('a background refresh', () => {
  it('counts as logged in if an earlier request authenticated the connection', () => {
    const socket = new Socket()
    expect(hasLogin(requestOn(socket, 'NTLM alice'))).toBe(true)
    const later = requestOn(socket)
    expect(hasLogin(later)).toBe(true)
    expect(hasLogin(createDetachedPair(later, '/').req)).toBe(true)
  })

  it('counts as logged in if its HTTP/2 session was logged in and has closed meanwhile', () => {
    const stream: { session?: object } = { session: {} }
    const later = Object.assign(requestOn(new Socket()), { stream })
    hasLogin(Object.assign(requestOn(new Socket(), 'Negotiate bob'), { stream: { ...stream } }))
    expect(hasLogin(later)).toBe(true)
    delete stream.session
    expect(hasLogin(createDetachedPair(later, '/').req)).toBe(true)
  })

  it('does not count as logged in if only another connection is logged in', () => {
    hasLogin(requestOn(new Socket(), 'NTLM alice'))
    const req = requestOn(new Socket())
    expect(hasLogin(req)).toBe(false)
    expect(hasLogin(createDetachedPair(req, '/').req)).toBe(false)
  })
})
