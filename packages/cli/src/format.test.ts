import { expect, it } from 'vitest'
import { bytes, count, duration, pairs, percent, printable, table } from './format.ts'

it.each([
  [0, '0 ms'],
  [999, '999 ms'],
  [3_210, '3.2 s'],
  [59_400, '59 s'],
  [60_000, '1 min'],
  [185_000, '3 min 5 s'],
  [3_600_000, '1 h'],
  [97_200_000, '1 d 3 h'],
  [-5, '0 ms'],
])('duration(%d) is %s', (ms, text) => {
  expect(duration(ms)).toBe(text)
})

it('sizes and numbers have units and separators', () => {
  expect([bytes(12), bytes(2_048), bytes(3 * 1_024 ** 2), bytes(5 * 1_024 ** 3)]).toEqual([
    '12 B',
    '2.0 KiB',
    '3.0 MiB',
    '5.0 GiB',
  ])
  expect([count(1, 'process'), count(2_000, 'process'), count(2, 'lock')]).toEqual([
    '1 process',
    '2,000 processes',
    '2 locks',
  ])
  expect([percent(1 / 3), percent(undefined)]).toEqual(['33.3 %', '-'])
})

it('a table aligns numbers to the right, and text to the left', () => {
  const rows = [
    ['a', '1'],
    ['long', '200'],
  ] as const
  expect(table(rows, { KEY: ([key]) => key, HITS: ([, hits]) => hits })).toEqual([
    'KEY   HITS',
    'a        1',
    'long   200',
  ])
})

it('pairs() leaves out a name whose value is undefined', () => {
  expect(
    pairs([
      ['a', 'x'],
      ['longer', undefined],
      ['bb', 'y'],
    ]),
  ).toEqual(['a   x', 'bb  y'])
})

it('control characters of keys do not reach the terminal', () => {
  expect(printable('a\x1b[2J\nb\u202ec')).toBe('a\\u001b[2J\\u000ab\\u202ec')
})

it('prints a table with more rows than a function may have arguments', () => {
  const rows = Array.from({ length: 300_000 }, () => 'long value')
  expect(table(rows, { A: (row) => row })).toHaveLength(300_001)
})
