// Checks the pages of the repository: links, sizes, one decision a page, and tables of options.

import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readCacheOptions } from '../packages/core/src/cache/cache-options.ts'
import { readPlan } from '../packages/core/src/data/get-or-set-options.ts'
import { START_PAGES, startPage } from '../tools/start-pages.mjs'
import { projectFiles } from './map.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const files = projectFiles()
const pages = files.filter((path) => path.endsWith('.md')).sort()

const withoutBlocks = (text: string): string => text.replace(/^( *)(```|~~~)[\s\S]*?^\1\2/gm, '')

const withoutCode = (text: string): string => withoutBlocks(text).replace(/`[^`\n]*`/g, 'x')

/** Anchors of a page, as GitHub makes them from its headings. */
function anchorsOf(path: string): Set<string> {
  const anchors = new Set<string>()
  const text = withoutBlocks(read(path))
  for (const [, heading = ''] of text.matchAll(/^#{1,6} +(.+)$/gm)) {
    const words = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
    const slug = words.replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '').replaceAll(' ', '-')
    let anchor = slug
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`
    anchors.add(anchor)
  }
  for (const [, id = ''] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id)
  return anchors
}

interface Link {
  readonly target: string
  readonly fault: string | undefined
}

function linksOf(page: string): Link[] {
  const inline = withoutCode(read(page)).matchAll(/\]\(\s*<?([^)\s>]+)/g)
  const defined = withoutCode(read(page)).matchAll(/^\[[^\]]+\]:\s+<?([^\s>]+)/gm)
  return [...inline, ...defined]
    .map(([, target = '']) => target)
    .filter((target) => !/^([a-z][a-z+.-]*:|\/\/)/i.test(target))
    .map((target) => ({ target, fault: faultOf(page, target) }))
}

function faultOf(page: string, target: string): string | undefined {
  const [path = '', anchor] = decodeURI(target).split('#')
  const to = path === '' ? page : join(dirname(page), path)
  if (!existsSync(join(ROOT, to))) return `${page} links to ${target}, which does not exist`
  if (anchor === undefined || !to.endsWith('.md') || anchorsOf(to).has(anchor)) return undefined
  return `${page} links to ${target}, but that page has no such heading`
}

describe('each link', () => {
  it('leads to a file and a heading that exist', () => {
    const links = pages.flatMap(linksOf)
    expect(links.length).toBeGreaterThan(100)
    expect(links.flatMap(({ fault }) => fault ?? [])).toEqual([])
  })
})

/** `"one", "another" (`file`)`, or `` `file`, "one", "another"``. */
const QUOTED =
  /((?:"[^"|]+"(?:, )?)+) \(`([^`]+\.test\.ts)`\)|`([^`]+\.test\.ts)`((?:, "[^"|]+")+)/g

describe('a page that quotes tests', () => {
  it('names test files that exist', () => {
    const named = pages.flatMap((page) =>
      [...read(page).matchAll(/`([\w./-]+\/[\w.-]+\.test\.ts)`/g)].map(([, file = '']) => ({
        page,
        file,
      })),
    )
    expect(named.length).toBeGreaterThan(100)
    const missing = named.filter(({ file }) => !existsSync(join(ROOT, file)))
    expect(missing).toEqual([])
  })

  it('quotes titles that are in the named file', () => {
    let quotes = 0
    const wrong = pages.flatMap((page) =>
      [...read(page).matchAll(QUOTED)].flatMap(([, before, end, begin, after]) => {
        const text = read((end ?? begin) as string)
        const titles = [...(before ?? after ?? '').matchAll(/"([^"]+)"/g)].map(
          ([, each = '']) => each,
        )
        quotes += titles.length
        return titles
          .filter((title) => !["'", '"'].some((mark) => text.includes(mark + title + mark)))
          .map((title) => `${page}: ${title}`)
      }),
    )
    expect(quotes).toBeGreaterThan(100)
    expect(wrong).toEqual([])
  })
})

describe('ARCHITECTURE.md', () => {
  const text = read('ARCHITECTURE.md')

  it('has at most 8 KB', () => {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8 * 1024)
  })

  it('names files that exist', () => {
    const roots = ['', 'packages/', 'packages/core/src/', 'packages/core/src/idempotency/']
    for (const [, path = ''] of text.matchAll(/`([\w./-]+\.(?:ts|lua|mjs))`/g)) {
      const places = [...roots, 'packages/locks/src/'].map((root) => root + path)
      expect(
        places.some((place) => files.includes(place)),
        path,
      ).toBe(true)
    }
  })

  it('has a line for each folder of sources and of tests', () => {
    const folders = files.flatMap((path) => {
      const [, name] =
        /^(?:packages\/([^/]+\/src\/[^/]+)|test\/([^/]+))\/.*\.(?:ts|mjs)$/.exec(path) ?? []
      const [, test] = /^test\/([^/]+)\//.exec(path) ?? []
      return name ?? test ?? []
    })
    const last = [...new Set(folders)].map((folder) => basename(folder))
    for (const folder of last.filter((name) => name !== 'testing')) {
      expect(text, `a line for the folder ${folder}`).toMatch(
        new RegExp(`\`([\\w/-]+/)?${folder}\``),
      )
    }
  })
})

describe('GLOSSARY.md', () => {
  const rows = [...read('GLOSSARY.md').matchAll(/^\| (?!term \|)([^|]+) \| (.+) \|$/gm)]
  const terms = rows.map(([, term = '']) => term)

  it('has each term once', () => {
    expect(terms.length).toBeGreaterThan(50)
    expect(terms.filter((term, i) => terms.indexOf(term) !== i)).toEqual([])
  })

  it('explains each term in one sentence of at most 25 words', () => {
    const faults = rows.filter(([, , meaning = '']) => {
      const sentences = meaning.split(/[.!?](?=\s|$)/).filter((sentence) => sentence.trim() !== '')
      return sentences.length !== 1 || !meaning.endsWith('.') || meaning.split(/\s+/).length > 25
    })
    expect(faults.map(([row]) => row)).toEqual([])
  })

  it('has only terms that occur in packages or docs', () => {
    const texts = files
      .filter((path) => /^(packages|docs)\/.*\.(ts|md)$/.test(path))
      .map((path) =>
        read(path)
          .toLowerCase()
          .replace(/\s+(?:\/\/ |\* )?/g, ' '),
      )
    const isUsed = (term: string) => texts.some((text) => text.includes(term.toLowerCase()))
    expect(terms.filter((term) => !isUsed(term))).toEqual([])
  })
})

describe('docs/decisions', () => {
  const FOLDER = 'docs/decisions'
  const decisions = pages.filter((path) => dirname(path) === FOLDER && !path.endsWith('README.md'))
  const index = read(`${FOLDER}/README.md`)

  it.each(decisions)('%s has one decision, with its context and consequences', (path) => {
    const text = read(path)
    expect(text.split('\n').length, 'lines').toBeLessThanOrEqual(40)
    const parts = [...text.matchAll(/^\*\*(Context|Decision|Consequences)\.\*\*/gm)]
    expect(parts.map(([, part]) => part)).toEqual(['Context', 'Decision', 'Consequences'])
  })

  it('names only functions and files that exist', () => {
    const sources = files.filter((path) =>
      /^(packages|lua|apps|test|tools)\/.*\.(ts|lua|mjs)$/.test(path),
    )
    const words = new Set(sources.flatMap((path) => read(path).match(/\w+/g) ?? []))
    const missing = decisions.flatMap((path) =>
      [...read(path).matchAll(/`([a-z]+[A-Z]\w*|[\w./-]+\.(?:ts|lua|mjs))`/g)].flatMap(
        ([, name = '']) => {
          const isThere = name.includes('.')
            ? files.some((file) => file === name || file.endsWith(`/${name}`))
            : words.has(name)
          return isThere || name === 'x.d.ts' ? [] : `${path}: ${name}`
        },
      ),
    )
    expect(missing).toEqual([])
  })

  it('has an index with a line for each page, under its title', () => {
    const rows = [...index.matchAll(/^\| \[(\d+)\]\(([^)]+)\) \| (.+?) \|/gm)]
    const listed = rows.map(([, number, page, title]) => `${page} # ${number}. ${title}`)
    const there = decisions.map((path) => `${basename(path)} ${read(path).split('\n', 1)[0]}`)
    expect(listed).toEqual(there)
    for (const [, number, page = ''] of rows) expect(Number(page.slice(0, 4))).toBe(Number(number))
  })
})

describe('the pages for users', () => {
  const theirs = pages.filter((path) =>
    /^(README|docs\/(compare|promises|(start|guide|recipes|migrate)\/[^/]+))\.md$/.test(path),
  )
  const wordsOf = (path: string): number => read(path).trim().split(/\s+/).length

  // A new text displaces an old one, or is a row of a table.
  it('are at most 45, with at most 46 000 words', () => {
    expect(theirs.length).toBeGreaterThan(40)
    expect(theirs.length).toBeLessThanOrEqual(45)
    const words = theirs.map(wordsOf).reduce((sum, count) => sum + count, 0)
    expect(words).toBeLessThanOrEqual(46_000)
  })

  it('begin with a README of at most 130 lines, with a program in its first 12', () => {
    const lines = read('README.md').trimEnd().split('\n')
    expect(lines.length).toBeLessThanOrEqual(130)
    expect(lines.slice(0, 12)).toContain('```ts')
  })

  it.each(START_PAGES)('lead to a first hit on %s in at most 500 words', (page) => {
    const path = `docs/start/${page}.md`
    expect(read(path), 'run node tools/start-pages.mjs').toBe(startPage(page))
    expect(wordsOf(path)).toBeLessThanOrEqual(500)
  })
})

/** Name and default of each row of a page's first table of options. */
function optionsIn(page: string): Map<string, string> {
  const [, table = ''] =
    /^\| option \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(read(page)) ?? []
  return new Map(
    [...table.matchAll(/^\| (.+?) \| (.*?) ?\| .*$/gm)].flatMap(([, names = '', value = '']) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => [name, value] as const),
    ),
  )
}

/** A default as a guide writes it. */
function shown(value: unknown): string {
  if (typeof value === 'string') return `\`'${value}'\``
  if (typeof value !== 'number') return `\`${value}\``
  if (value === 1024 * 1024) return '1 MiB'
  return String(value).replace(/\B(?=(\d{3})+$)/g, ' ')
}

describe('a table of options', () => {
  const { invalidatedTags: _, cacheName: __, ...read } = readCacheOptions()
  const { queryBody: ____, addsSubjects: _____, ...config } = read
  const { revalidate: ___, ...plan } = readPlan({ ttlMs: 1 })
  it.each<[page: string, read: Readonly<Record<string, unknown>>, others: string[]]>([
    ['docs/guide/options.md', config, ['stampede', 'cacheStatus']],
    ['docs/guide/data.md', plan, ['serializer']],
  ])('names every option in %s, with its default', (page, read, others) => {
    const documented = optionsIn(page)
    expect([...documented.keys()].sort()).toEqual([...Object.keys(read), ...others].sort())
    for (const [name, value] of Object.entries(read)) {
      const written = documented.get(name) ?? ''
      // A row that refers to another page has no default.
      if (name === 'ttlMs' || written === '') continue
      if (!['number', 'boolean', 'string'].includes(typeof value)) continue
      expect(written.replace(/: off$/, ''), name).toBe(shown(value))
    }
  })
})
