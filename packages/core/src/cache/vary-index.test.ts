import { describe, expect, it } from 'vitest'
import { type StoredResponse, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { VaryIndex } from './vary-index.ts'

const found = (vary: StoredResponse['vary']): StoredResponse => ({
  type: 'response',
  status: 200,
  headers: [],
  body: Buffer.alloc(0),
  initialAgeMs: 0,
  vary,
  made: UNKNOWN_ORIGIN,
})

const GERMAN = found([['accept-language', 'de']])

describe('what varies', () => {
  it('is nothing as long as nobody found an answer for others', () => {
    const index = new VaryIndex()
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
  })

  it('is in the key of every request but those that the first answer is for', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'fr' })).toEqual(['accept-language'])
    expect(index.namesFor('k', {})).toEqual(['accept-language'])
    expect(index.namesFor('other', { 'accept-language': 'fr' })).toEqual([])
  })

  it('is compared in one spelling', () => {
    const index = new VaryIndex()
    index.learn('k', [], found([['accept-encoding', 'br, gzip']]))
    expect(index.namesFor('k', { 'accept-encoding': 'gzip,br' })).toEqual([])
  })

  it('tells an absent header from an empty one', () => {
    const index = new VaryIndex()
    index.learn('k', [], found([['x-a', null]]))
    expect(index.namesFor('k', {})).toEqual([])
    expect(index.namesFor('k', { 'x-a': '' })).toEqual(['x-a'])
  })

  it('grows when an answer found under some names varies by others too', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    index.learn('k', ['accept-language'], found([['x-theme', 'dark']]))
    const names = index.namesFor('k', { 'accept-language': 'fr' })
    expect(names).toEqual(['accept-language', 'x-theme'])
  })

  it('follows the first answer when that was replaced by another', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    index.learn('k', [], found([['accept-language', 'fr']]))
    expect(index.namesFor('k', { 'accept-language': 'fr' })).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual(['accept-language'])
  })
})

describe('the number of variants', () => {
  const language = (i: number) => ({ 'accept-language': `x-${i}` })

  it('is capped per URL; those who were there, and the first, are still served', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    for (let i = 0; i < 64; i++) expect(index.namesFor('k', language(i))).not.toBe('full')
    expect(index.namesFor('k', language(64))).toBe('full')
    expect(index.namesFor('k', language(64))).toBe('full')
    expect(index.namesFor('k', language(0))).toEqual(['accept-language'])
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
    index.learn('other', [], GERMAN)
    expect(index.namesFor('other', language(64))).toEqual(['accept-language'])
  })

  it('is capped also when many find out at once that an answer is not for them', () => {
    const index = new VaryIndex()
    for (let i = 0; i < 64; i++) {
      index.learn('k', [], GERMAN)
      expect(index.namesFor('k', language(i))).not.toBe('full')
    }
    index.learn('k', [], GERMAN)
    expect(index.namesFor('k', language(64))).toBe('full')
  })
})

describe('the number of URLs', () => {
  it('is capped; one forgotten is learned again', () => {
    const index = new VaryIndex()
    for (let i = 0; i <= 10_000; i++) index.learn(`k${i}`, [], GERMAN)
    expect(index.namesFor('k0', {})).toEqual([])
    expect(index.namesFor('k1', {})).toEqual(['accept-language'])
  })
})
