// The part of how we write that a machine can check: widths, lengths, openings, and words with a
// plainer one.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { projectFiles } from './map.mjs'

const ROOT = new URL('..', import.meta.url)
const MOST_COLUMNS = 100
const MOST_DOC_COLUMNS = 120
const MOST_WORDS = 30

const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, ROOT)), 'utf8')
const files = projectFiles().filter((path) => !/\.generated\.|\/corpus\//.test(path))
const sources = files.filter((path) => /\.(ts|mjs|lua)$/.test(path))
const tests = sources.filter((path) => /test|suite|contract|cases/.test(path))
const pages = files.filter((path) => path.endsWith('.md'))

/** Words that made readers guess, and what to write. */
const PLAINER: readonly (readonly [RegExp, string])[] = [
  [/\b(?:whoever|whatever|whichever)\b/i, 'name the thing or the actor'],
  [/\b(?:of late|anew|in vain|thereof|hitherto|ere)\b/i, 'use the everyday word: recently, again'],
  [
    /\b(?:those|somebody|nobody|anybody|everybody|others) who\b/i,
    'name the actor: a waiter, a client',
  ],
  [/\bwho (?:waits?|asks?|comes?|leads?)\b/i, 'name the actor: a waiter, a leader'],
  [/\b(?:is|was|are|were|be) told\b/i, 'say notified, or name what is sent'],
  [/\blook-ups?\b/i, 'write lookup'],
  [/\bthe (?:short|long) way\b/i, 'say fast path, slow path'],
]

/** How a title or a comment must not open: without its subject. */
const NO_TITLE =
  /^(?:that|of|and|nor|or|with|where|who|whose|what|but|than|as|from|for|by|under|over|beyond)\b/
const NO_OPENING =
  /^(?:Of|Who|Whose|Whom|What|Whatever|Whoever|Those|Else|Nor|Nobody|Somebody|And|But where|Where|With what|For what|Under which|By what)\b/

/** Every comment line of a source, with its number. */
function commentsOf(path: string): { line: number; text: string; opens: boolean; width: number }[] {
  const lua = path.endsWith('.lua')
  const pattern = lua
    ? /^\s*--\s?(.*)$/
    : /^\s*(?:\/\/|\/\*\*?|\*(?![*/]))\s?(.*?)(?:\*\/)?$|\s\/\/\s(.*)$/
  let previous = false
  return read(path)
    .split('\n')
    .flatMap((line, index) => {
      const [, block, trailing] = pattern.exec(line) ?? []
      const text = (block ?? trailing ?? '').trim()
      const opens = text !== '' && !previous
      previous = text !== ''
      return text === '' ? [] : [{ line: index + 1, text, opens, width: line.length }]
    })
}

/** The sentences of a page, without code blocks; each cell of a table is one of its own. */
function sentencesOf(path: string): { line: number; text: string }[] {
  const prose = read(path).replace(/^( *)```[\s\S]*?^\1```/gm, (block) =>
    block.replace(/[^\n]/g, ''),
  )
  let line = 1
  return prose.split(/\n(?=\n|[-*|#\d])/).flatMap((block) => {
    const at = line
    line += block.split('\n').length
    const cells = block.replace(/^[-*#>|\s\d.]+/, '').split('|')
    return cells.flatMap((cell) =>
      cell
        .replace(/\s+/g, ' ')
        .split(/(?<=[.!?:;])\s+(?=[A-Z\d`"'(])/)
        .map((text) => ({ line: at, text })),
    )
  })
}

/** Without quoted titles of tests, and figures in parentheses. */
const words = (text: string): number =>
  text
    .replace(/"[^"]*"|\([\d ×,.%]*\)/g, '""')
    .split(/\s+/)
    .filter((word) => /\w/.test(word)).length

const plainerIn = (text: string): string | undefined =>
  PLAINER.find(([pattern]) => pattern.test(text.replace(/`[^`]*`/g, '')))?.[1]

function withPlainerWords(all: readonly { path: string; line: number; text: string }[]): string[] {
  return all.flatMap(({ path, line, text }) => {
    const why = plainerIn(text)
    return why === undefined ? [] : `${path}:${line}: ${why}: ${text}`
  })
}

describe('comments', () => {
  const all = sources.flatMap((path) => commentsOf(path).map((each) => ({ path, ...each })))

  it(`fit into ${MOST_COLUMNS} columns`, () => {
    expect(all.length).toBeGreaterThan(3_000)
    const wide = all.filter(({ width, text }) => width > MOST_COLUMNS && !text.includes('://'))
    expect(wide.map(({ path, line }) => `${path}:${line}: wrap the comment`)).toEqual([])
  })

  it('open with their subject', () => {
    const riddles = all.filter(({ opens, text }) => opens && NO_OPENING.test(text))
    expect(
      riddles.map(({ path, line, text }) => `${path}:${line}: open with the subject: ${text}`),
    ).toEqual([])
  })

  it('use plain words', () => {
    expect(withPlainerWords(all)).toEqual([])
  })
})

describe('test titles', () => {
  it('begin with their verb', () => {
    const titles = tests.flatMap((path) =>
      read(path)
        .split('\n')
        .flatMap((line, index) => {
          const [, , title = ''] =
            /\b(?:it|test)(?:\.\w+)*(?:\([^'"`]*\))?\(\s*(['"`])(.+?)\1/.exec(line) ?? []
          return NO_TITLE.test(title) ? `${path}:${index + 1}: begin with a verb: ${title}` : []
        }),
    )
    expect(titles).toEqual([])
  })
})

describe('docs', () => {
  const sentences = pages
    .filter((path) => path !== 'CHANGELOG.md')
    .flatMap((path) => sentencesOf(path).map((each) => ({ path, ...each })))

  it(`have sentences of at most ${MOST_WORDS} words`, () => {
    const long = sentences.filter(({ text }) => words(text) > MOST_WORDS)
    expect(
      long.map(({ path, line, text }) => `${path}:${line}: split into two sentences: ${text}`),
    ).toEqual([])
  })

  it('use plain words', () => {
    expect(withPlainerWords(sentences)).toEqual([])
  })

  it(`have lines of at most ${MOST_DOC_COLUMNS} columns`, () => {
    const wide = pages.flatMap((path) => {
      let inCode = false
      return read(path)
        .split('\n')
        .flatMap((line, index) => {
          if (/^ *```/.test(line)) inCode = !inCode
          const isFree = inCode || /^\s*\||https?:|\]\(/.test(line)
          return !isFree && line.length > MOST_DOC_COLUMNS
            ? `${path}:${index + 1}: wrap the line`
            : []
        })
    })
    expect(wide).toEqual([])
  })
})
