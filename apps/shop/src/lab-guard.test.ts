import { describe, expect, it } from 'vitest'
import { requireLocal } from './lab-guard.ts'
import { Problem } from './response.ts'

const from = (remoteAddress: string | undefined, headers: Record<string, string>) => () =>
  requireLocal({ headers, socket: { remoteAddress } })

describe('requireLocal', () => {
  it.each([
    ['127.0.0.1', 'localhost:3000'],
    ['::1', '[::1]:3000'],
    ['::ffff:127.0.0.1', '127.0.0.1'],
  ])('lets %s in with the Host %s', (address, host) => {
    expect(from(address, { host })).not.toThrow()
  })

  it.each(['192.168.1.9', '::ffff:10.0.0.1', '2001:db8::1', undefined])(
    'refuses %s with any Host',
    (address) => {
      expect(from(address, { host: 'localhost' })).toThrow(Problem)
    },
  )

  it('refuses a host name that only resolves to this machine (DNS rebinding)', () => {
    expect(from('127.0.0.1', { host: 'shop.example' })).toThrow(Problem)
    expect(from('127.0.0.1', { host: 'localhost.example:3000' })).toThrow(Problem)
    expect(from('127.0.0.1', {})).toThrow(Problem)
  })

  it('refuses a request that a proxy on this machine forwards', () => {
    const host = 'localhost'
    expect(from('127.0.0.1', { host, 'x-forwarded-for': '203.0.113.5' })).toThrow(Problem)
    expect(from('127.0.0.1', { host, forwarded: 'for=203.0.113.5' })).toThrow(Problem)
  })
})
