import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalPath } from '../ports/key.ts'
import { matchesPattern, patternProblem } from './route-pattern.ts'

describe('the normal form of a path', () => {
  it.each([
    ['/Products/42', '/products/42'],
    ['/products/42/', '/products/42'],
    ['/%70roducts/%34%32', '/products/42'],
    ['/caf%C3%A9', '/café'],
    ['/a%2Fb', '/a%2fb'],
    ['/%zz', '/%zz'],
    ['/', '/'],
  ])('turns %s into %s', (path, canonical) => {
    expect(canonicalPath(path)).toBe(canonical)
  })

  it('does not change when it is normalised again', () => {
    fc.assert(
      fc.property(fc.webPath(), (path) => {
        const once = canonicalPath(path)
        expect(canonicalPath(once.replaceAll('%', '%25'))).toBe(once.replace(/(.)\/$/, '$1'))
      }),
    )
  })
})

describe('a pattern', () => {
  it.each([
    ['/products/:id', '/products/42', true],
    ['/Products/:id/', '/products/42', true],
    ['/products/:id', '/products', false],
    ['/products/:id', '/products/', false],
    ['/products/:id', '/products/42/reviews', false],
    ['/products/:id/reviews', '/products/42/reviews', true],
    ['/files/*rest', '/files/a/b/c', true],
    ['/files/*', '/files', true],
    ['/files/*', '/other', false],
    ['/*', '/', true],
    ['/', '/', true],
    ['/', '/a', false],
    ['/:a', '/a%2fb', true],
    ['/caf%C3%A9/:id', '/café/1', true],
  ])('%s matches %s: %s', (pattern, path, expected) => {
    expect(patternProblem(pattern)).toBeUndefined()
    expect(matchesPattern(pattern, path)).toBe(expected)
  })

  it.each(['products', '', '/a/*/b', '/a(b)?', '/:', '/{a}', '/a:b', `/${'a'.repeat(1_000)}`])(
    'is rejected if it is %s',
    (pattern) => {
      expect(patternProblem(pattern)).toBeTypeOf('string')
    },
  )
})
