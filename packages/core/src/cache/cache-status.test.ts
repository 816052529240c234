import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BYPASS_DETAILS, NOT_STORED_DETAILS, OTHER_DETAILS } from '../http/cache-status.ts'
import { cacheStatus } from './respond.ts'

describe('cacheStatus', () => {
  it('writes a hit', () => {
    expect(cacheStatus('Stampede', { ttlS: 376 })).toBe('Stampede; hit; ttl=376')
  })

  it('writes a stale hit with a negative ttl, rounded down', () => {
    expect(cacheStatus('Stampede', { ttlS: -412 })).toBe('Stampede; hit; ttl=-412')
    expect(cacheStatus('Stampede', { ttlS: -0.2 })).toBe('Stampede; hit; ttl=-1')
    expect(cacheStatus('Stampede', { ttlS: 0.9 })).toBe('Stampede; hit; ttl=0')
    expect(cacheStatus('Stampede', { ttlS: -0 })).toBe('Stampede; hit; ttl=0')
  })

  it('writes a forward with its parameters in order, and no hit', () => {
    const facts = {
      fwd: 'stale',
      detail: 'expired',
      collapsed: true,
      stored: true,
      ttlS: 60,
      status: 200,
    } as const
    expect(cacheStatus('Stampede', facts)).toBe(
      'Stampede; fwd=stale; fwd-status=200; ttl=60; stored; collapsed; detail=expired',
    )
  })

  it('writes false as ?0, and leaves out unknown values', () => {
    const facts = { fwd: 'uri-miss', stored: false, collapsed: false } as const
    expect(cacheStatus('Stampede', facts)).toBe('Stampede; fwd=uri-miss; stored=?0; collapsed=?0')
    const bypass = { fwd: 'bypass', status: undefined } as const
    expect(cacheStatus('Stampede', bypass)).toBe('Stampede; fwd=bypass')
  })

  it('writes each detail as a token, which needs no quotes', () => {
    const details = [...BYPASS_DETAILS, ...NOT_STORED_DETAILS, ...OTHER_DETAILS]
    for (const detail of [...details, 'stale-if-error/503'] as const) {
      expect(detail).toMatch(/^[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*$/)
      expect(cacheStatus('S', { ttlS: 1, detail })).toBe(`S; hit; ttl=1; detail=${detail}`)
    }
  })

  it('writes integers that a parser accepts', () => {
    expect(cacheStatus('S', { ttlS: 1e30 })).toBe('S; hit; ttl=999999999999999')
    expect(cacheStatus('S', { ttlS: Number.NaN })).toBe('S; hit')
    expect(cacheStatus('S', { ttlS: -Infinity })).toBe('S; hit; ttl=-999999999999999')
  })

  it('gives each hit its own value, also after a hit with another name or time', () => {
    for (const _ of [1, 2]) {
      expect(cacheStatus('A', { ttlS: 1.5 })).toBe('A; hit; ttl=1')
      expect(cacheStatus('B', { ttlS: 1 })).toBe('B; hit; ttl=1')
      expect(cacheStatus('B', { ttlS: 257 })).toBe('B; hit; ttl=257')
      expect(cacheStatus('B', { ttlS: -255 })).toBe('B; hit; ttl=-255')
    }
  })

  it('writes a ttl that a parser accepts for any number', () => {
    fc.assert(
      fc.property(fc.double(), (ttlS) => {
        expect(cacheStatus('S', { ttlS })).toMatch(/^S; hit(; ttl=-?\d{1,15})?$/)
      }),
    )
  })
})
