// Copies tables of benchmark results into the pages of docs/evidence: `node tools/evidence.mjs`.
// With `--check`, it writes nothing, and ends with status 1 if a copy is outdated. A benchmark that
// publishes its results runs it.
// @ts-check
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const FOLDER = 'docs/evidence'
const COPY = /<!-- copy of (\S+?)#(\S+) -->\n[\s\S]*?\n<!-- end of copy -->/g

const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8')
const anchorOf = (/** @type {string} */ heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-')

/** The pages of evidence, relative to the repository. */
export const evidencePages = () =>
  readdirSync(join(ROOT, FOLDER)).map((name) => `${FOLDER}/${name}`)

/**
 * The first table after a heading of a page.
 * @param {string} page
 * @param {string} anchor of the heading
 */
export function tableAfter(page, anchor) {
  const lines = read(page).split('\n')
  const heading = lines.findIndex(
    (line) => /^#+ /.test(line) && anchorOf(line.replace(/^#+ /, '')) === anchor,
  )
  if (heading < 0) throw new Error(`${page} has no heading #${anchor}`)
  const begin = lines.findIndex((line, at) => at > heading && line.startsWith('|'))
  const end = lines.findIndex((line, at) => at > begin && !line.startsWith('|'))
  return lines.slice(begin, end)
}

/** A page with its copies as they must be. @param {string} page */
export const withCopies = (page) =>
  read(page).replace(COPY, (_all, /** @type {string} */ source, /** @type {string} */ anchor) =>
    [
      `<!-- copy of ${source}#${anchor} -->`,
      '',
      ...tableAfter(source, anchor),
      '',
      '<!-- end of copy -->',
    ].join('\n'),
  )

/** Writes all copies. Returns the pages that were outdated. */
export function copyTables(isCheck = false) {
  const outdated = evidencePages().filter((page) => withCopies(page) !== read(page))
  if (!isCheck) for (const page of outdated) writeFileSync(join(ROOT, page), withCopies(page))
  return outdated
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isCheck = process.argv.includes('--check')
  const outdated = copyTables(isCheck)
  for (const page of outdated) console.log(`${page} ${isCheck ? 'is outdated' : 'written'}`)
  if (isCheck && outdated.length > 0) process.exitCode = 1
}
