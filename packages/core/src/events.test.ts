import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Emitted, EVENT_CHANNEL, Events } from './events.ts'

const PASSED: Emitted = { type: 'fill.passed', key: 'k', reason: 'set-cookie' }
const LOST: Emitted = { type: 'lease.lost', key: 'k', fence: '1' }

afterEach(() => void vi.restoreAllMocks())

describe('a listener', () => {
  it('is told of the events of its type, and with * of every event', () => {
    const events = new Events()
    const told: string[] = []
    events.on('*', (event) => told.push(`any ${event.type}`))
    events.on('lease.lost', (event) => told.push(`own ${event.type}`))
    events.emit(PASSED)
    events.emit(LOST)
    expect(told).toEqual(['any fill.passed', 'own lease.lost', 'any lease.lost'])
  })

  it('is told no more once it was taken off', () => {
    const events = new Events()
    const told = vi.fn()
    const off = events.on('lease.lost', told)
    off()
    off()
    events.emit(LOST)
    expect(told).not.toHaveBeenCalled()
  })

  it('may take itself off while it is told', () => {
    const events = new Events()
    const told: string[] = []
    const off = events.on('lease.lost', () => {
      told.push('first')
      off()
    })
    events.on('lease.lost', () => told.push('second'))
    events.emit(LOST)
    events.emit(LOST)
    expect(told).toEqual(['first', 'second', 'second'])
  })

  it('that came after others of its type had left is told', () => {
    const events = new Events()
    events.on('lease.lost', () => {})()
    const told = vi.fn()
    events.on('lease.lost', told)
    events.emit(LOST)
    expect(told).toHaveBeenCalledOnce()
  })

  it.each([new Error('mine'), 'a string', undefined, null, Symbol('s'), Object.create(null)])(
    'that throws %o changes nothing for the others, and becomes a warning',
    (thrown) => {
      const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
      const events = new Events()
      const told = vi.fn()
      events.on('lease.lost', () => {
        throw thrown
      })
      events.on('lease.lost', told)
      expect(() => events.emit(LOST)).not.toThrow()
      expect(told).toHaveBeenCalledOnce()
      expect(warn).toHaveBeenCalledOnce()
    },
  )
})

describe('counts', () => {
  it('are kept by type, with or without listeners', () => {
    const events = new Events()
    events.emit(LOST)
    events.emit(LOST)
    events.emit(PASSED)
    expect(events.count('lease.lost')).toBe(2)
    expect(events.count('fill.passed')).toBe(1)
    expect(events.count('gap')).toBe(0)
  })

  it('of hits tell the tiers apart', () => {
    const events = new Events()
    events.hit('k', 'l1', false)
    events.hit('k', 'l1', true)
    events.hit('k', 'l2', false)
    expect(events.hits).toEqual({ l1: 2, l2: 1 })
  })
})

describe('a hit', () => {
  it('is an event for whoever listens', () => {
    const events = new Events()
    const told = vi.fn()
    events.hit('k', 'l1', false)
    events.on('hit', told)
    events.hit('k', 'l2', true)
    expect(told.mock.calls).toEqual([[{ type: 'hit', key: 'k', tier: 'l2', stale: true }]])
  })
})

describe('the diagnostics channel', () => {
  it('carries every event of every Stampede, hits too', () => {
    const seen: unknown[] = []
    const listener = (message: unknown) => seen.push(message)
    subscribe(EVENT_CHANNEL, listener)
    try {
      new Events().emit(PASSED)
      new Events().hit('k', 'l1', false)
    } finally {
      unsubscribe(EVENT_CHANNEL, listener)
    }
    new Events().emit(PASSED)
    expect(seen).toEqual([PASSED, { type: 'hit', key: 'k', tier: 'l1', stale: false }])
  })
})
