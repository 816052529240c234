import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cacheStatus } from './cache-status.ts'

describe('cacheStatus', () => {
  it('writes a hit', () => {
    expect(cacheStatus('Stampede', { type: 'hit', ttlS: 376 })).toBe('Stampede; hit; ttl=376')
  })

  it('writes a stale hit with a negative ttl, rounded down', () => {
    expect(cacheStatus('Stampede', { type: 'hit', ttlS: -412 })).toBe('Stampede; hit; ttl=-412')
    expect(cacheStatus('Stampede', { type: 'hit', ttlS: -0.2 })).toBe('Stampede; hit; ttl=-1')
    expect(cacheStatus('Stampede', { type: 'hit', ttlS: 0.9 })).toBe('Stampede; hit; ttl=0')
    expect(cacheStatus('Stampede', { type: 'hit', ttlS: -0 })).toBe('Stampede; hit; ttl=0')
  })

  it('writes a forward with its parameters in order, and no hit', () => {
    const facts = {
      type: 'forward',
      reason: 'stale',
      detail: 'REFRESH',
      collapsed: true,
      stored: true,
      ttlS: 60,
      status: 200,
    } as const
    expect(cacheStatus('Stampede', facts)).toBe(
      'Stampede; fwd=stale; fwd-status=200; ttl=60; stored; collapsed; detail=REFRESH',
    )
  })

  it('writes false as ?0, and leaves out unknown values', () => {
    const facts = { type: 'forward', reason: 'uri-miss', stored: false, collapsed: false } as const
    expect(cacheStatus('Stampede', facts)).toBe('Stampede; fwd=uri-miss; stored=?0; collapsed=?0')
    const bypass = { type: 'forward', reason: 'bypass', status: undefined } as const
    expect(cacheStatus('Stampede', bypass)).toBe('Stampede; fwd=bypass')
  })

  it('quotes a detail that is not a token', () => {
    const detail = (text: string) => cacheStatus('S', { type: 'hit', ttlS: 1, detail: text })
    expect(detail('set-cookie')).toBe('S; hit; ttl=1; detail=set-cookie')
    expect(detail('two words')).toBe('S; hit; ttl=1; detail="two words"')
    expect(detail('a"b\\c')).toBe('S; hit; ttl=1; detail="a\\"b\\\\c"')
    expect(detail('')).toBe('S; hit; ttl=1; detail=""')
    expect(detail('1st')).toBe('S; hit; ttl=1; detail="1st"')
    expect(detail('a\r\nx: \u00e9')).toBe('S; hit; ttl=1; detail="a??x: ?"')
  })

  it('writes integers that a parser accepts', () => {
    expect(cacheStatus('S', { type: 'hit', ttlS: 1e30 })).toBe('S; hit; ttl=999999999999999')
    expect(cacheStatus('S', { type: 'hit', ttlS: Number.NaN })).toBe('S; hit')
    expect(cacheStatus('S', { type: 'hit', ttlS: -Infinity })).toBe('S; hit; ttl=-999999999999999')
  })

  it('gives each hit its own value, also after a hit with another name or time', () => {
    for (const _ of [1, 2]) {
      expect(cacheStatus('A', { type: 'hit', ttlS: 1.5 })).toBe('A; hit; ttl=1')
      expect(cacheStatus('B', { type: 'hit', ttlS: 1 })).toBe('B; hit; ttl=1')
      expect(cacheStatus('B', { type: 'hit', ttlS: 257 })).toBe('B; hit; ttl=257')
      expect(cacheStatus('B', { type: 'hit', ttlS: -255 })).toBe('B; hit; ttl=-255')
    }
  })

  it('returns printable ASCII for any input', () => {
    const anyUnit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code))
    fc.assert(
      fc.property(fc.string({ unit: anyUnit }), fc.double(), (text, ttlS) => {
        expect(cacheStatus('S', { type: 'hit', ttlS, detail: text })).toMatch(/^[\x20-\x7e]+$/)
      }),
    )
  })
})
