import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isDelivery, readDelivery } from './pending-deliveries.ts'

const HEAD = '\0token 7 1000 400 20 30 40'
const FRAME = Buffer.from([0, 255, 10])
const write = (head: string, key = 'k\n\0ü', frame = FRAME) =>
  Buffer.concat([Buffer.from(`${head} ${Buffer.byteLength(key)}\n${key}`), frame])

describe('a delivery message', () => {
  it('is parsed to the values that the commit wrote', () => {
    const message = write(HEAD)
    expect(isDelivery(message)).toBe(true)
    const named = { key: 'k\n\0ü', token: 'token', fence: '7' }
    const times = { at: 1_000, freshMs: 400, windows: [20, 30, 40] }
    expect(readDelivery(message)).toEqual({ ...named, ...times, frame: FRAME })
  })

  it.each([
    ['no key', write(HEAD, '')],
    ['no end of the line', Buffer.from(HEAD)],
    ['a key longer than the message', Buffer.from(`${HEAD} 9\nkey`)],
    ['a missing part', write('\0token 7 1000 400 20 30')],
    ['an extra part', write(`${HEAD} 50`)],
    ['a negative number', write('\0token 7 -1000 400 20 30 40')],
    ['a fence that is not a number', write('\0token x 1000 400 20 30 40')],
    ['a line without end', Buffer.concat([Buffer.from('\0'), Buffer.alloc(1_000, 'x')])],
  ])('is not parsed with %s', (_, message) => {
    expect(readDelivery(message)).toBeUndefined()
  })

  it('is not confused with a message that has only a key, or with an empty one', () => {
    expect(isDelivery(Buffer.from('http:GET /'))).toBe(false)
    expect(isDelivery(Buffer.alloc(0))).toBe(false)
  })

  it('has valid numbers and a slice of the message as its frame if it can be parsed', () => {
    const number = fc.oneof(
      { weight: 20, arbitrary: fc.constant('1') },
      fc.constantFrom('0', '5000', '9'.repeat(16), '9'.repeat(20), '-1', ''),
    )
    const numbers = fc.array(number, { minLength: 6, maxLength: 8 })
    let read = 0
    fc.assert(
      fc.property(numbers, fc.uint8Array(), fc.boolean(), (parts, rest, isWhole) => {
        const line = `\0token ${parts.join(' ')}${isWhole ? '\n' : ''}`
        const message = Buffer.concat([Buffer.from(line), rest])
        const delivery = readDelivery(message)
        if (delivery === undefined) return
        read += 1
        const { key, frame, token: _token, fence: _fence, ...times } = delivery
        const all = [times.at, times.freshMs, ...times.windows]
        expect(all.every((ms) => Number.isFinite(ms) && ms >= 0)).toBe(true)
        expect(all).toHaveLength(5)
        expect(frame.byteLength + key.length).toBeLessThanOrEqual(message.length)
      }),
      { numRuns: 3_000 },
    )
    expect(read).toBeGreaterThan(10)
  })
})
