import { describe, expect, it } from 'vitest'
import type { Filled } from '../protocol/filled-message.ts'
import { Awaited } from './awaited.ts'

const FILLED: Filled = {
  key: 'k',
  token: 'me',
  fence: '7',
  at: 1_000,
  freshMs: 400,
  staleWhileRevalidateMs: 20,
  staleIfErrorMs: 30,
  keepMs: 40,
  frame: Buffer.from('frame'),
}
const REQUEST = { token: 'me', leaseMs: 5_000 }
const clockAt = (now: number) => ({ agoAtMost: (at: number) => now - at })

function told(filled: Partial<Filled> = {}): Awaited {
  const awaited = new Awaited()
  awaited.add('k', 'me', '7')
  awaited.fill({ ...FILLED, ...filled })
  return awaited
}

describe('what is awaited', () => {
  it('is given as it is by now', () => {
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
    ['nobody was told', new Awaited()],
    ['it is of another fill', told({ fence: '8' })],
    ['it is for another name', told({ token: 'you' })],
    ['it is of another key', told({ key: 'other' })],
  ])('is asked for where %s', (_why, awaited) => {
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
  })

  it('is asked for when it is stale already, came late, or from a time that is not known', () => {
    expect(told().take('k', REQUEST, clockAt(1_400))).toBeUndefined()
    expect(told({ freshMs: 60_000 }).take('k', REQUEST, clockAt(1_501))).toBeUndefined()
    expect(told().take('k', REQUEST, { agoAtMost: () => undefined })).toBeUndefined()
  })

  it('is given once, and not after a purge', () => {
    const awaited = told()
    awaited.take('k', REQUEST, clockAt(1_100))
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
    const purged = told()
    purged.forget()
    purged.fill(FILLED)
    expect(purged.take('k', REQUEST, clockAt(1_100))).toBeUndefined()
  })

  it('is still awaited when somebody only reads meanwhile', () => {
    const awaited = told()
    expect(awaited.take('k', { token: '', leaseMs: 0 }, clockAt(1_100))).toBeUndefined()
    expect(awaited.take('k', REQUEST, clockAt(1_100))).toBeDefined()
  })

  it('is of five hundred keys at once, and who gave up waiting makes room one by one', () => {
    const awaited = new Awaited()
    const begun = Array.from({ length: 502 }, () => awaited.mayBegin())
    expect(begun.filter((mayBe) => mayBe)).toHaveLength(500)
    for (let i = 0; i < 500; i++) {
      awaited.add(`k${i}`, 'me', '7')
      awaited.ended()
    }
    expect([awaited.mayBegin(), awaited.size]).toEqual([false, 499])
    expect(awaited.mayBegin()).toBe(true)
  })

  it('holds little of what nobody comes for', () => {
    const awaited = new Awaited()
    const frame = Buffer.alloc(16 * 1024)
    for (let i = 0; i < 5_000; i++) {
      awaited.add(`k${i}`, 'me', '7')
      awaited.fill({ ...FILLED, key: `k${i}`, frame })
    }
    expect(awaited.bytes).toBeLessThanOrEqual(8 * 1024 * 1024)
    expect(awaited.size).toBeGreaterThan(400)
    expect(awaited.take('k4999', REQUEST, clockAt(1_100))).toBeDefined()
    for (let i = 0; i < 5_000; i++) awaited.add(`${i}`.padEnd(16_000, 'k'), 'me', '7')
    expect(awaited.bytes).toBeLessThanOrEqual(8 * 1024 * 1024)
    awaited.forget()
    expect(awaited.bytes).toBe(0)
  })

  it('counts once what is told twice, and nothing that was taken or replaced', () => {
    const awaited = told()
    const { bytes } = awaited
    awaited.fill(FILLED)
    expect(awaited.bytes).toBe(bytes)
    awaited.add('k', 'me', '7')
    awaited.fill(FILLED)
    expect(awaited.bytes).toBe(bytes)
    awaited.take('k', REQUEST, clockAt(1_100))
    expect(awaited.bytes).toBe(0)
  })

  it('keeps nothing alive of what came with it', () => {
    const all = new Uint8Array(64 * 1024)
    const reply = told({ frame: all.subarray(100, 110) }).take('k', REQUEST, clockAt(1_100))
    const { frame } = (reply?.status === 'fresh' && reply.stored) || {}
    expect(frame?.buffer.byteLength).toBe(10)
  })
})
