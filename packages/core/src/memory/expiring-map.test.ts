import { describe, expect, it } from 'vitest'
import { ExpiringMap } from './expiring-map.ts'

describe('ExpiringMap', () => {
  let now = 0
  const map = () => {
    now = 0
    return new ExpiringMap<{ expiresAt: number }>({ now: () => now })
  }

  it('returns an entry until it ends, and then drops it', () => {
    const entries = map()
    entries.set('a', { expiresAt: 10 })
    now = 9
    expect(entries.get('a')).toEqual({ expiresAt: 10 })
    now = 10
    expect(entries.get('a')).toBeUndefined()
    expect(entries.size).toBe(0)
  })

  it('does not grow by entries that are never read again', () => {
    const entries = map()
    for (let i = 0; i < 10_000; i++) {
      now = i
      entries.set(`${i}`, { expiresAt: i + 100 })
    }
    expect(entries.size).toBeLessThan(300)
  })

  it('drops all ended entries when it is swept, at most once a second', () => {
    const entries = map()
    for (let i = 0; i < 100; i++) entries.set(`${i}`, { expiresAt: i < 50 ? 10 : 1_015 })
    now = 15
    expect(entries.sweep()).toBe(true)
    expect(entries.size).toBe(50)
    now = 1_014
    expect(entries.sweep()).toBe(false)
    now = 1_015
    expect(entries.sweep()).toBe(true)
    expect(entries.size).toBe(0)
  })
})
