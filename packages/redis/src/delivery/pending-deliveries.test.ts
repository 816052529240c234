import { describe, expect, it } from 'vitest'
import type { Delivery } from './pending-deliveries.ts'
import { PendingDeliveries } from './pending-deliveries.ts'

const FILLED: Delivery = {
  key: 'k',
  token: 'me',
  fence: '7',
  at: 1_000,
  freshMs: 400,
  windows: [20, 30, 40],
  frame: Buffer.from('frame'),
}
const REQUEST = { token: 'me', leaseMs: 5_000 }
const clockAt = (now: number) => ({ agoAtMost: (at: number) => now - at })

function told(filled: Partial<Delivery> = {}): PendingDeliveries {
  const awaited = new PendingDeliveries()
  awaited.add('k', 'me', '7')
  awaited.deliver({ ...FILLED, ...filled })
  return awaited
}

describe('a delivered entry', () => {
  it('is returned with its current age', () => {
    const reply = told().take('k', REQUEST, clockAt(1_100))
    expect(reply).toEqual({
      status: 'fresh',
      stored: {
        fence: '7',
        frame: FILLED.frame,
        ageMs: 100,
        freshForMs: 300,
        staleWhileRevalidateMs: 20,
        staleIfErrorMs: 30,
        keepMs: 40,
      },
    })
  })

  it.each([
    ['none has arrived', new PendingDeliveries()],
    ['it belongs to another fill', told({ fence: '8' })],
    ['it has another token', told({ token: 'you' })],
    ['it has another key', told({ key: 'other' })],
  ])('is not returned if %s', (_why, awaited) => {
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
  })

  it('is not returned if it is stale, arrived too late, or has an unknown age', () => {
    expect(told().take('k', REQUEST, clockAt(1_400))).toBeUndefined()
    expect(told({ freshMs: 60_000 }).take('k', REQUEST, clockAt(1_501))).toBeUndefined()
    expect(told().take('k', REQUEST, { agoAtMost: () => undefined })).toBeUndefined()
  })

  it('is returned once, and never after a purge', () => {
    const awaited = told()
    awaited.take('k', REQUEST, clockAt(1_100))
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
    const purged = told()
    purged.clear()
    purged.deliver(FILLED)
    expect(purged.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
  })

  it('stays available when a caller without a token reads', () => {
    const awaited = told()
    expect(awaited.take('k', { token: '', leaseMs: 0 }, clockAt(1_100))).toBeUndefined()
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeDefined()
  })

  it('is awaited for at most 370 keys at a time, and those of 128 lookups in flight', () => {
    const awaited = new PendingDeliveries()
    for (let i = 0; i < 370; i++) {
      expect(awaited.mayAdd(`k${i}`)).toBe(true)
      awaited.add(`k${i}`, 'me', '7')
    }
    expect([awaited.mayAdd('k'), awaited.size]).toEqual([false, 369])
    expect(awaited.mayAdd('k')).toBe(true)
  })

  it('is not accepted for a key over 1 KiB or with a frame over 16 KiB', () => {
    const awaited = new PendingDeliveries()
    expect(awaited.mayAdd('k'.repeat(1_025))).toBe(false)
    expect(awaited.mayAdd('k'.repeat(1_024))).toBe(true)
    awaited.add('k', 'me', '7')
    awaited.deliver({ ...FILLED, frame: Buffer.alloc(16 * 1024 + 1) })
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
  })

  it('keeps only its frame in memory, not the rest of the message', () => {
    const all = new Uint8Array(64 * 1024)
    const reply = told({ frame: all.subarray(100, 110) }).take('k', REQUEST, clockAt(1_100))
    const { frame } = (reply?.status === 'fresh' && reply.stored) || {}
    expect(frame?.buffer.byteLength).toBe(10)
  })
})
