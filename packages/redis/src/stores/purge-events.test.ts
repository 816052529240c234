import { StampedeError } from '@stampede/core'
import { describe, expect, it } from 'vitest'
import {
  lacks,
  readAppendReply,
  readId,
  readMessage,
  readPosition,
  readPurgePage,
  writeEvent,
} from './purge-events.ts'

const bytes = (...texts: string[]) => texts.map((text) => Buffer.from(text))

describe('a purge event', () => {
  it.each([
    [{ of: 'key', name: 'd:=k', soft: false } as const, 'khd:=k'],
    [{ of: 'subject', name: '*', soft: true } as const, 'ms*'],
    [{ of: 'subject', name: 't=a b\nc ü', soft: false } as const, 'mht=a b\nc ü'],
  ])('is parsed as it was written: %j', (purge, text) => {
    expect(writeEvent(purge)).toBe(text)
    expect(readMessage(`20-7 10-6 ${text}`)).toEqual({ ...purge, id: '20-7', prev: '10-6' })
  })

  it.each([
    '',
    'x',
    '20-7 10-6',
    '20-7 10-6 ',
    '20-7 10-6 mh',
    '20-7 10-6 zhname',
    '20-7 10-6 mxname',
    '20 10 mhname',
    '10-6 20-7 mhname',
    '20-7 20-6 mhname',
    '-20-7 10-6 mhname',
    '2e3-7 10-6 mhname',
    '20-x 10-6 mhname',
    '20-1234567890123456 10-6 mhname',
    '9000000000000000-7 10-6 mhname',
    '99999999999999999999-7 10-6 mhname',
    ' 20-7 10-6 mhname',
  ])('is not parsed from %j', (message) => expect(readMessage(message)).toBeUndefined())
})

describe('a reply of read-purges', () => {
  it('may contain the whole log', () => {
    const raw = bytes('LOG', '40', '30-3', '5', 'run', '20-2', 'khk', '30-3', 'ms*')
    expect(readPurgePage(raw)).toEqual({
      isComplete: true,
      hasMore: false,
      now: 40,
      last: '30-3',
      floor: 5,
      run: 'run',
      events: [
        { of: 'key', name: 'k', soft: false, id: '20-2' },
        { of: 'subject', name: '*', soft: true, id: '30-3' },
      ],
    })
  })

  it('may be one page of the log, with more pages to follow', () => {
    const raw = bytes('PART', '40', '20-2', '5', 'run', '20-2', 'khk')
    expect(readPurgePage(raw)).toMatchObject({ isComplete: true, hasMore: true, last: '20-2' })
  })

  it('may contain purge marks', () => {
    const raw = bytes('MORE', '40', '30-3', '5', 'run', '20-0', 'ht=red')
    expect(readPurgePage(raw)).toMatchObject({
      isComplete: false,
      hasMore: true,
      events: [{ of: 'subject', name: 't=red', id: '20-0' }],
    })
  })

  it.each([
    ['LOG', 'x', 20],
    ['MARKS', 'x', 20],
    ['LOG', 'mh', 20],
  ])('raises the oldest known position if it contains an unknown event', (status, event, floor) => {
    const raw = bytes(status, '40', '30-3', '5', 'run', '20-2', event)
    const { isComplete, floor: known } = readPurgePage(raw)
    expect([isComplete, known]).toEqual([false, floor])
  })

  it('raises the oldest known position to the last position if an unknown event has no time', () => {
    expect(readPurgePage(bytes('MARKS', '40', '30-3', '5', 'run', 'inf', 'x'))).toMatchObject({
      floor: 30,
    })
    expect(readPurgePage(bytes('MARKS', '40', '30-3', '5', 'run', '1.5', 'ht=red'))).toMatchObject({
      events: [{ id: '30-3' }],
    })
  })

  it.each([
    undefined,
    null,
    'x',
    [],
    bytes('LOG'),
    bytes('LOG', '1', 'x', '1'),
    bytes('LOG', '1', '1', '1'),
  ])('is refused if it is not a reply of the script: %j', (raw) => {
    expect(() => readPurgePage(raw)).toThrow(StampedeError)
    expect(() => readAppendReply(raw)).toThrow(StampedeError)
  })
})

it('a purge position is a whole number well below the largest safe integer', () => {
  for (const value of ['0', 7, Buffer.from('1795278251743960')]) {
    expect(readPosition(value)).toBe(Number(String(value)))
  }
  for (const value of ['', null, undefined, '-1', '1.5', '1e3', 'inf', '9000000000000000']) {
    expect(readPosition(value)).toBeUndefined()
  }
})

it.each([
  ['30-3', '20-2', false],
  ['30-3', '30-3', false],
  ['30-3', '30-4', true],
  ['30-3', '31-3', true],
  // The random number is unknown.
  ['30-3', '30-0', false],
  ['30-3', '0-0', false],
])('a purge log that ends with %s lacks the purge %s: %j', (last, known, expected) => {
  expect(lacks(last, known)).toBe(expected)
})

it.each(['', '1', '1-', '-1', '1-x', '1-1-1', '9000000000000000-1', ' 1-1'])(
  'the ID of a purge is not valid as %j',
  (text) => expect(readId(text)).toBeUndefined(),
)
