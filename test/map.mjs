// Map of the source files: one line a file, which is the first sentence of its first comment.
//
// `npm run map` prints all folders, `npm run map -- packages/redis` this one. It stands beside the
// architecture test, which checks that each file has such a sentence.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const GENERATED = 'packages/redis/src/protocol/scripts.generated.ts'

/** Tracked and new files, without those that git ignores and those that were deleted. */
export function projectFiles() {
  const list = (...flags) =>
    execFileSync('git', ['ls-files', ...flags], { cwd: ROOT, encoding: 'utf8' }).split('\n')
  const deleted = new Set(list('--deleted'))
  return list('--cached', '--others', '--exclude-standard').filter(
    (path) => path !== '' && path !== GENERATED && !deleted.has(path),
  )
}

/** The map lists sources and helpers of tests. A test file is described by its titles. */
export const isMapped = (path) =>
  /^(lua|packages|apps|test|tools)\/.*\.(ts|lua|mjs|js|css|html)$/.test(path) &&
  !/\.test\.ts$/.test(path)

/** First sentence of the comment that a file begins with, or `undefined` if there is none. */
export function firstSentence(text) {
  const lines = text.replace(/^(#!.*\n|<!doctype html>\n)/i, '').split('\n')
  const block = /^\s*(\/\*\*?|<!--)/.test(lines[0])
  const paragraph = []
  for (const line of lines) {
    const isComment = block || /^(\/\/|--)/.test(line)
    const words = line
      .replace(/^\s*(\/\/|--|\/\*\*?|<!--|\*(?!\/))?\s?/, '')
      .replace(/\s*(\*\/|-->).*$/, '')
      .trim()
    if (!isComment || (words === '' && paragraph.length > 0)) break
    if (words !== '') paragraph.push(words)
    if (block && /\*\/|-->/.test(line)) break
  }
  const [sentence = ''] = paragraph.join(' ').split(/(?<=[^.]\.)\s+(?=[^a-z]|https?:)|;\s/)
  return sentence === '' ? undefined : sentence.replace(/[.:]$/, '')
}

const read = (path) => readFileSync(join(ROOT, path), 'utf8')

function print(folders) {
  let last
  for (const path of projectFiles().filter(isMapped).sort(byFolder)) {
    if (!folders.some((folder) => path.startsWith(folder))) continue
    if (dirname(path) !== last) console.log(`\n${dirname(path)}/`)
    last = dirname(path)
    console.log(`  ${path.slice(last.length + 1)} — ${firstSentence(read(path)) ?? '?'}`)
  }
}

function byFolder(a, b) {
  return dirname(a) === dirname(b) ? (a < b ? -1 : 1) : dirname(a) < dirname(b) ? -1 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folders = process.argv.slice(2)
  print(folders.length === 0 ? [''] : folders)
}
