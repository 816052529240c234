import { describe, expect, it } from 'vitest'
import { matchesGlob } from './glob.ts'

describe('matchesGlob', () => {
  it.each([
    ['*', ''],
    ['*', 'rates:eur'],
    ['rates:*', 'rates:eur'],
    ['*:eur', 'rates:eur'],
    ['r?tes:*r', 'rates:eur'],
    ['*a*b*c', 'xaxbxbxc'],
    ['https://*/products?page=*', 'https://shop.example/products?page=2'],
    ['a.b[c]', 'a.b[c]'],
    ['**', 'x'],
  ])('accepts with %s the name %s', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(true)
  })

  it.each([
    ['', 'a'],
    ['a', ''],
    ['?', ''],
    ['rates', 'rates:eur'],
    ['*:usd', 'rates:eur'],
    ['a.b', 'axb'],
    ['*a*b', 'ba'],
  ])('refuses with %s the name %s', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(false)
  })

  it('has an end for many stars', () => {
    expect(matchesGlob(`${'*a'.repeat(100)}b`, 'a'.repeat(5_000))).toBe(false)
  })
})
