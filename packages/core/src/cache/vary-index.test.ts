import { describe, expect, it } from 'vitest'
import { type StoredResponse, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { VaryIndex } from './vary-index.ts'

const found = (vary: StoredResponse['vary']): StoredResponse => ({
  type: 'response',
  status: 200,
  fields: [],
  body: Buffer.alloc(0),
  initialAgeMs: 0,
  vary,
  made: UNKNOWN_ORIGIN,
})

const NOW = 1_000
const GERMAN = found([['accept-language', 'de']])

describe('what varies', () => {
  it('is nothing as long as nobody found an answer for others', () => {
    const index = new VaryIndex()
    expect(index.namesFor('k', { 'accept-language': 'de' }, NOW)).toEqual([])
  })

  it('is in the key of every request but those that the first answer is for', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    expect(index.namesFor('k', { 'accept-language': 'de' }, NOW)).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'fr' }, NOW)).toEqual(['accept-language'])
    expect(index.namesFor('k', {}, NOW)).toEqual(['accept-language'])
    expect(index.namesFor('other', { 'accept-language': 'fr' }, NOW)).toEqual([])
  })

  it('is compared in one spelling', () => {
    const index = new VaryIndex()
    index.learn('k', [], found([['accept-encoding', 'br, gzip']]))
    expect(index.namesFor('k', { 'accept-encoding': 'gzip,br' }, NOW)).toEqual([])
  })

  it('tells an absent header from an empty one', () => {
    const index = new VaryIndex()
    index.learn('k', [], found([['x-a', null]]))
    expect(index.namesFor('k', {}, NOW)).toEqual([])
    expect(index.namesFor('k', { 'x-a': '' }, NOW)).toEqual(['x-a'])
  })

  it('grows when an answer found under some names varies by others too', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    index.learn('k', ['accept-language'], found([['x-theme', 'dark']]))
    const names = index.namesFor('k', { 'accept-language': 'fr' }, NOW)
    expect(names).toEqual(['accept-language', 'x-theme'])
  })

  it('follows the first answer when that was replaced by another', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    index.learn('k', [], found([['accept-language', 'fr']]))
    expect(index.namesFor('k', { 'accept-language': 'fr' }, NOW)).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'de' }, NOW)).toEqual(['accept-language'])
  })
})

describe('the number of variants', () => {
  const language = (i: number) => ({ 'accept-language': `x-${i}` })

  it('is capped per URL; those who were there, and the first, are still served', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    for (let i = 0; i < 64; i++) expect(index.namesFor('k', language(i), NOW)).not.toBe('full')
    expect(index.namesFor('k', language(64), NOW)).toBe('full')
    expect(index.namesFor('k', language(64), NOW)).toBe('full')
    expect(index.namesFor('k', language(0), NOW)).toEqual(['accept-language'])
    expect(index.namesFor('k', { 'accept-language': 'de' }, NOW)).toEqual([])
    index.learn('other', [], GERMAN)
    expect(index.namesFor('other', language(64), NOW)).toEqual(['accept-language'])
  })

  it('does not shut out for ever those who came after somebody who made up 64', () => {
    const index = new VaryIndex()
    index.learn('k', [], GERMAN)
    for (let i = 0; i < 64; i++) index.namesFor('k', language(i), NOW)
    index.namesFor('k', language(0), NOW + 30_000)
    expect(index.namesFor('k', language(64), NOW + 59_999)).toBe('full')
    // Room is made of those that nobody has asked for in the last minute: all but the first.
    for (let i = 64; i < 64 + 63; i++)
      expect(index.namesFor('k', language(i), NOW + 60_000)).not.toBe('full')
    expect(index.namesFor('k', language(200), NOW + 60_000)).toBe('full')
    expect(index.namesFor('k', language(0), NOW + 60_000)).not.toBe('full')
  })

  it('is capped also when many find out at once that an answer is not for them', () => {
    const index = new VaryIndex()
    for (let i = 0; i < 64; i++) {
      index.learn('k', [], GERMAN)
      expect(index.namesFor('k', language(i), NOW)).not.toBe('full')
    }
    index.learn('k', [], GERMAN)
    expect(index.namesFor('k', language(64), NOW)).toBe('full')
  })
})

describe('the number of URLs', () => {
  it('is capped; one forgotten is learned again', () => {
    const index = new VaryIndex()
    for (let i = 0; i <= 10_000; i++) index.learn(`k${i}`, [], GERMAN)
    expect(index.namesFor('k0', {}, NOW)).toEqual([])
    expect(index.namesFor('k1', {}, NOW)).toEqual(['accept-language'])
  })
})

describe('what is remembered', () => {
  const chosen = (index: VaryIndex, url: string, language: string) =>
    index.namesFor(url, { 'accept-language': language }, NOW)

  it('of a long URL is as of a short one', () => {
    const index = new VaryIndex()
    const long = 'k'.repeat(16_000)
    index.learn(long, [], GERMAN)
    expect(chosen(index, long, 'fr')).toEqual(['accept-language'])
    expect(chosen(index, long, 'de')).toEqual([])
    expect(chosen(index, `${long}k`, 'fr')).toEqual([])
  })

  it('is so many selections of all URLs together; what is longest unasked for is learned anew', () => {
    const index = new VaryIndex()
    for (let url = 0; url < 2_000; url++) {
      index.learn(`url ${url}`, [], GERMAN)
      for (let i = 0; i < 64; i++) chosen(index, `url ${url}`, `x-${i}`)
    }
    expect(chosen(index, 'url 0', 'x-1')).toEqual([])
    expect(chosen(index, 'url 1999', 'x-1')).toEqual(['accept-language'])
  })
})
