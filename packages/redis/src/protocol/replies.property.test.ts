import { StampedeError, type StampedeStore } from '@stampede/core'
import { HOSTILE_PIECES, LONG, repeated, runs } from '@stampede/core/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLinear } from '../../../core/src/testing/cpu-time.ts'
import {
  positionOf,
  readAppendReply,
  readMessage,
  readPurgePage,
  writeEvent,
} from '../stores/purge-events.ts'
import { readBegin, readInspection } from '../stores/redis-idempotency.ts'
import { names } from './keys.ts'
import { readLookup } from './lookup-reply.ts'

type LookupRequest = Parameters<StampedeStore['lookup']>[1]

const YEAR_MS = 400 * 24 * 3600 * 1000
const REQUEST: LookupRequest = { token: 'me', leaseMs: 1_000 }

const words = fc.constantFrom(
  ...['FRESH', 'STALE', 'LEASED', 'BUSY', 'PASS', 'FAILED', 'LATE', 'LOG', 'MARKS', 'MORE'],
  ...['BEGUN', 'MISMATCH', 'COMPLETED', 'UNCERTAIN', 'ABSENT', 'running', 'completed', 'APPENDED'],
  ...['0', '1', '-1', '1e400', 'nan', 'inf', '0x10', '9'.repeat(16), '9'.repeat(400), ''],
  ...['k', 'kh', 'khname', 'mst=a', 'mh*', '{"status":503,"message":"x"}', '{"status":1}', 'null'],
  ...HOSTILE_PIECES,
)
/** Values that a client library can return for a reply. */
const element = fc.oneof(
  words.map((word) => Buffer.from(word)),
  words,
  fc.double(),
  fc.integer(),
  fc.constantFrom(null, undefined, true, []),
  fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
)
const reply = fc.oneof(
  { weight: 8, arbitrary: fc.array(element, { maxLength: 16 }) },
  { weight: 1, arbitrary: element },
)
/** A line of values, which a frame and a failure may follow. */
const lookupReply = fc
  .tuple(
    fc.constantFrom('FRESH', 'STALE', 'LEASED', 'BUSY', 'PASS', 'FAILED', 'LATE'),
    fc.array(words, { maxLength: 12 }),
    fc.array(element, { maxLength: 3 }),
  )
  .map(([status, values, rest]) => [Buffer.from([status, ...values].join(' ')), ...rest])
const startingWith = (statuses: readonly string[]) =>
  fc
    .tuple(fc.constantFrom(...statuses), fc.array(element, { minLength: 8, maxLength: 14 }))
    .map(([status, rest]) => [Buffer.from(status), ...rest])

/** Undefined if it is refused, which must be by an error about an unknown reply. */
function readOrRefused<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    expect(error).toBeInstanceOf(StampedeError)
    expect((error as Error).message).toMatch(/reply|layout/)
    return undefined
  }
}

const isDuration = (ms: unknown): boolean =>
  typeof ms === 'number' && ms >= -YEAR_MS && ms <= YEAR_MS
const isBytes = (bytes: unknown): boolean => bytes === undefined || bytes instanceof Uint8Array

describe('a random reply to a lookup', () => {
  it('is refused, or parsed to values of the right types', () => {
    let read = 0
    fc.assert(
      fc.property(fc.oneof(reply, lookupReply), (raw) => {
        const found = readOrRefused(() => readLookup(raw, 'k', REQUEST))
        if (found === undefined) return
        read += 1
        const said = found.reply
        if ('forMs' in said) expect(isDuration(said.forMs)).toBe(true)
        if ('busyForMs' in said) expect(isDuration(said.busyForMs)).toBe(true)
        if ('grant' in said) expect(said.grant).toMatchObject({ key: 'k', token: 'me' })
        if (said.status === 'failed') expect(said.failure.status).toBeGreaterThanOrEqual(500)
        if (!('stored' in said) || said.stored === undefined) return
        const { frame, fence, ...times } = said.stored
        expect(isBytes(frame) && fence !== '').toBe(true)
        expect(Object.values(times).every(isDuration)).toBe(true)
      }),
      runs(4_000),
    )
    expect(read).toBeGreaterThan(100)
  })
})

describe('a random reply about an idempotency key', () => {
  it('is refused, or parsed to a known status', () => {
    const begins = startingWith(['BEGUN', 'MISMATCH', 'BUSY', 'COMPLETED', 'UNCERTAIN'])
    fc.assert(
      fc.property(fc.oneof(reply, begins), (raw) => {
        const found = readOrRefused(() => readBegin(raw, 'k', 'me'))
        if (found === undefined) return
        if ('forMs' in found) expect(isDuration(found.forMs)).toBe(true)
        if (found.status === 'completed') expect(found.frame).toBeInstanceOf(Uint8Array)
        if (found.status !== 'begun') return
        expect(Number.isSafeInteger(found.attempt) && found.attempt > 0).toBe(true)
        expect([...found.steps.values()].every((bytes) => bytes instanceof Uint8Array)).toBe(true)
      }),
      runs(4_000),
    )
    const inspections = startingWith(['running', 'lapsed', 'completed', 'released', 'uncertain'])
    fc.assert(
      fc.property(fc.oneof(reply, inspections), (raw) => {
        const found = readOrRefused(() => readInspection(raw))
        if (found === undefined) return
        expect(isBytes(found.frame)).toBe(true)
        expect([found.ageMs, found.keepForMs, found.leaseForMs].every(isDuration)).toBe(true)
      }),
      runs(2_000),
    )
  })
})

describe('random data about purges', () => {
  it('is refused, or parsed to valid purge positions', () => {
    const isPosition = (position: unknown): boolean =>
      Number.isSafeInteger(position) && (position as number) >= 0
    fc.assert(
      fc.property(fc.oneof(reply, startingWith(['LOG', 'MARKS', 'MORE', 'APPENDED'])), (raw) => {
        const news = readOrRefused(() => readPurgePage(raw))
        if (news !== undefined) {
          const { now, last, floor, events } = news
          expect([now, positionOf(last), floor].every(isPosition)).toBe(true)
          expect(events.every(({ id, name }) => isPosition(positionOf(id)) && name !== '')).toBe(
            true,
          )
        }
        const appended = readOrRefused(() => readAppendReply(raw))
        if (appended === undefined) return
        const { now, id, prev } = appended
        expect([now, positionOf(id), positionOf(prev)].every(isPosition)).toBe(true)
      }),
      runs(3_000),
    )
  })

  it('is parsed as it was written, with any name of a purge target', () => {
    const purge = fc.record({
      of: fc.constantFrom('key' as const, 'subject' as const),
      name: fc.string({ minLength: 1, unit: 'binary' }),
      soft: fc.boolean(),
    })
    fc.assert(
      fc.property(purge, fc.nat(), (each, prev) => {
        const message = `${prev + 1}-7 ${prev}-6 ${writeEvent(each)}`
        expect(readMessage(message)).toEqual({ ...each, id: `${prev + 1}-7`, prev: `${prev}-6` })
      }),
      runs(1_000),
    )
  })

  it('has rising positions if it can be parsed, and takes no long time even if it is long', () => {
    fc.assert(
      fc.property(
        fc.array(words).map((all) => all.join(' ')),
        (message) => {
          const event = readMessage(message)
          if (event === undefined) return
          expect(positionOf(event.prev)).toBeLessThan(positionOf(event.id))
        },
      ),
      runs(1_000),
    )
    for (const piece of ['1', ' ', '1 ', 'x', '\n']) {
      const inputOf = (length: number) => repeated(piece, length)
      expect(isLinear(inputOf, readMessage, 16 * LONG), piece).toBe(true)
    }
  })
})

describe('the Redis key of a record', () => {
  const { record } = names('t')
  const key = fc
    .array(fc.constantFrom('a', '{', '}', ':', '=', '#', '\0', 'é', '{=a}', 'x'.repeat(199)), {
      maxLength: 5,
    })
    .map((all) => all.join(''))

  it('belongs to one cache key alone', () => {
    fc.assert(
      fc.property(key, key, (one, other) => {
        const same = Buffer.from(record(one)).equals(Buffer.from(record(other)))
        expect(same).toBe(one === other)
      }),
      runs(3_000),
    )
  })

  it('stays short for a cache key of any length', () => {
    for (const long of [repeated('a'), `a\0${repeated('b')}`, repeated('é')]) {
      expect(record(long).length).toBeLessThan(300)
    }
  })
})
