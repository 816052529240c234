import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { cacheGroups, responseTags } from './subjects.ts'

const SEED = { seed: 9875, numRuns: 500 }
const lines = (name: string, values: readonly string[]): HeaderList =>
  values.map((value) => [name, value] as const)

describe('Surrogate-Key and Cache-Tag', () => {
  it.each<[string, string[], string[]]>([
    ['surrogate-key', ['a b c'], ['a', 'b', 'c']],
    ['surrogate-key', [' a \t  b ', '', 'b c'], ['a', 'b', 'c']],
    ['surrogate-key', ['a,b "c"'], ['a,b', '"c"']],
    ['surrogate-key', [''], []],
    ['cache-tag', ['a,b , c'], ['a', 'b', 'c']],
    ['cache-tag', [',, a b ,,\tc\t,', 'c, A'], ['a b', 'c', 'A']],
    ['cache-tag', ['\u00a0'], ['\u00a0']],
    ['cache-tags', ['a'], []],
  ])('give for %s: %j the tags %j', (name, values, names) => {
    expect(responseTags(lines(name, values))).toEqual(names)
  })

  it('are counted together', () => {
    const both = [...lines('cache-tag', ['b, a']), ...lines('surrogate-key', ['a c'])]
    expect(responseTags(both)).toEqual(['b', 'a', 'c'])
  })

  it('return the names that were written, in any distribution over the two fields', () => {
    const name = fc.stringMatching(/^[\x21-\x2b\x2d-\x7e]{1,20}$/)
    const gap = fc.stringMatching(/^[ \t]{1,3}$/)
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 30 }), gap, fc.nat(30), (names, gap, at) => {
        const split = [names.slice(0, at), names.slice(at)]
        const keys = split.map((part) => gap + part.join(gap) + gap)
        const tags = split.map((part) => gap + part.join(`${gap},${gap},`) + gap)
        expect(responseTags(lines('surrogate-key', keys))).toEqual(names)
        expect(responseTags(lines('cache-tag', tags))).toEqual(names)
      }),
      SEED,
    )
  })
})

describe.each([
  ['cache-groups', cacheGroups],
  [
    'cache-group-invalidation',
    (headers: HeaderList) => cacheGroups(headers, 'cache-group-invalidation'),
  ],
] as const)('%s (RFC 9875)', (name, read) => {
  it.each<[string[], string[]]>([
    [['"scripts", "styles"'], ['scripts', 'styles']],
    [['"a";x=1 ,\t"b";y'], ['a', 'b']],
    [
      ['"a", "b"', '"c", "a"'],
      ['a', 'b', 'c'],
    ],
    [['"a \\"b\\", c"'], ['a "b", c']],
    [['""'], ['']],
    [['"A", "a"'], ['A', 'a']],
    [[''], []],
    // An invalid List of Strings counts as absent.
    [['scripts'], []],
    [['"a", b'], []],
    [['("a" "b")'], []],
    [['"a" "b"'], []],
    [['"a",'], []],
    [['"a'], []],
    [['"ä"'], []],
  ])('gives for %j the names %j', (values, groups) =>
    expect(read(lines(name, values))).toEqual(groups),
  )

  it('accepts more and longer names than the RFC requires', () => {
    const groups = Array.from({ length: 100 }, (_, i) => `${i}`.padStart(500, '-'))
    expect(read(lines(name, [groups.map((group) => `"${group}"`).join(', ')]))).toEqual(groups)
  })
})
