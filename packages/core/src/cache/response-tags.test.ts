import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { cacheGroups, responseTags } from './subjects.ts'

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
