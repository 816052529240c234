import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Emitted, EVENT_CHANNEL, EVENT_TYPES, Events, type StampedeEvent } from './events.ts'
import { occasionsIn } from './testing/event-docs.ts'

const PASSED: Emitted = {
  type: 'fill.passed',
  key: 'k',
  reason: 'set-cookie',
  elapsedMs: 5,
}
/** This internal key is not one that shownKey parses, so it is shown unchanged. */
const K = { key: 'k', internalKey: 'k' }
const LOST: Emitted = { type: 'lease.lost', key: 'k', fence: '1' }

afterEach(() => void vi.restoreAllMocks())

describe('a listener of stampede.on()', () => {
  it('gets the events of its type, and with * every event', () => {
    const events = new Events()
    const told: string[] = []
    events.on('*', (event) => told.push(`any ${event.type}`))
    events.on('lease.lost', (event) => told.push(`own ${event.type}`))
    events.emit(PASSED)
    events.emit(LOST)
    expect(told).toEqual(['any fill.passed', 'own lease.lost', 'any lease.lost'])
  })

  it('may remove itself during an event', () => {
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

  it.each([new Error('mine'), 'a string', undefined, null, Symbol('s'), Object.create(null)])(
    'causes a warning if it throws %o, and other listeners still get the event',
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

  it('causes a warning if it is async and rejects, and does not crash the process', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const events = new Events()
    events.on('lease.lost', () => Promise.reject(new Error('mine')))
    events.emit(LOST)
    await vi.waitFor(() => expect(warned).toHaveBeenCalledOnce())
    expect(warned).toHaveBeenCalledWith('mine', 'StampedeListenerWarning')
  })
})

describe('an event of a Stampede', () => {
  const seen = (emit: (events: Events) => void) => {
    const events = new Events()
    const told: StampedeEvent[] = []
    events.on('*', (event) => told.push(event))
    emit(events)
    return told
  }

  it('has the key of the user and the internal key', () => {
    expect(seen((events) => events.hit('d:=rates:eur', 'l1', false))).toEqual([
      {
        type: 'entry.hit',
        key: 'rates:eur',
        internalKey: 'd:=rates:eur',
        tier: 'l1',
        stale: false,
      },
    ])
    const answered: Emitted = { type: 'idempotency.answered', key: 'hash', outcome: 'started' }
    expect(seen((events) => events.emit(answered, 'invoice:7'))).toEqual([
      { ...answered, key: 'invoice:7', internalKey: 'hash' },
    ])
  })

  it('has its fence as a bigint, and undefined for a run without a lease', () => {
    expect(seen((events) => events.emit(LOST))).toMatchObject([{ fence: 1n }])
    const alone: Emitted = { type: 'fill.started', key: 'k', behind: false, fence: '' }
    expect(seen((events) => events.emit(alone))).toEqual([{ ...alone, ...K, fence: undefined }])
  })
})

describe('the table of events in the guide', () => {
  const root = new URL('../../../', import.meta.url)
  const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

  it('has each event, its occasion and its fields', () => {
    const rows = [
      ...read('docs/guide/events.md').matchAll(
        /^\| `((?!lock\.)[a-z-]+\.[a-z-]+)` \| (.+) \| (.*) \|$/gm,
      ),
    ]
    const [, source = ''] =
      /interface EventFields \{(.*?)\n\}/s.exec(read('packages/core/src/events.ts')) ?? []
    expect(rows.map(([, type, when]) => [type, when])).toEqual(occasionsIn(source))
    expect(rows.map(([, type]) => type)).toEqual(EVENT_TYPES)
    const declared = source
      .split(/\n {2}'(?=[a-z-]+\.)/)
      .slice(1)
      .map((member) => {
        const names = [...member.matchAll(/readonly (\w+):/g)].map(([, name]) => `\`${name}\``)
        return [member.slice(0, member.indexOf("'")), names.join(' ')]
      })
    expect(rows.map(([, type, , fields]) => [type, fields])).toEqual(declared)
  })
})

describe('event counts', () => {
  it('count hits of each tier separately', () => {
    const events = new Events()
    events.hit('k', 'l1', false)
    events.hit('k', 'l1', true)
    events.hit('k', 'l2', false)
    expect(events.hits).toEqual({ l1: 2, l2: 1 })
  })
})

describe('the diagnostics channel', () => {
  it('carries every event of every Stampede, also hits', () => {
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
    expect(seen).toEqual([
      { ...PASSED, ...K },
      { type: 'entry.hit', ...K, tier: 'l1', stale: false },
    ])
  })
})
