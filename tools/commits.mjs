// Checks the messages of new commits by the rules of CONTRIBUTING.md: `node tools/commits.mjs`.
// New are the commits since SINCE, since the last tag and since the main branch of the remote. A
// clone without this history has no new commits, so the check passes there.
// @ts-check
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Older commits are not checked. */
const SINCE = '63add3df7e7f6c3915afeb4ff7f0f92a15d5a9e8'
const MOST_COLUMNS = 72
/** A commit that changes more lines needs a body. */
const MOST_LINES = 10
const FORM =
  /^(?:(?:feat|fix|perf|refactor|docs|test|build|style|revert)(?:\([a-z][\w, ./-]*\))?|merge): (\S.*)$/
/** Words without a thing that they name, and words that only the code knows. */
const UNCLEAR =
  /(?<![\w-])(?:it|what|those|one|again|the same|and|doors|properties|subjects|word|ways)(?![\w-])/i

/**
 * @typedef {{ id: string, parents: number, subject: string, body: string, lines: number }} Commit
 */

/** Faults in the message of a commit. @param {Commit} commit */
export function faultsOf({ parents, subject, body, lines }) {
  const [, text] = FORM.exec(subject) ?? []
  const [unclear] = UNCLEAR.exec(withoutCode(text ?? '')) ?? []
  const isMerge = parents > 1
  return [
    text === undefined && 'write "type(scope): verb + object"',
    isMerge !== subject.startsWith('merge: ') &&
      'write "merge: effect" for a merge, and only for a merge',
    subject.length > MOST_COLUMNS &&
      `shorten the subject to ${MOST_COLUMNS} characters from ${subject.length}`,
    unclear !== undefined && `name the thing in place of "${unclear}", or split the commit`,
    !isMerge && lines > MOST_LINES && body === '' && `say why in a body: ${lines} lines change`,
    subject.startsWith('perf') && !/\d/.test(subject + body) && 'give the figure in the body',
  ].filter((fault) => fault !== false)
}

/** Code is quoted as it is. @param {string} text */
const withoutCode = (text) => text.replace(/`[^`]*`/g, '')

/**
 * @param {string} folder
 * @param {...string} args
 */
function git(folder, ...args) {
  const { status, stdout } = spawnSync('git', args, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  return status === 0 ? stdout.trim() : undefined
}

/**
 * The new commits of a repository, newest first.
 * @param {string} folder
 * @param {string} since
 * @returns {Commit[]}
 */
export function newCommits(folder, since = SINCE) {
  const tag = git(folder, 'describe', '--tags', '--abbrev=0')
  const known = [since, tag, 'origin/HEAD', 'origin/main'].flatMap(
    (name) => (name && git(folder, 'rev-parse', '--verify', '--quiet', `${name}^{commit}`)) || [],
  )
  if (known.length === 0) return []
  const format = '--format=%x01%h%x02%p%x02%s%x02%b%x02'
  const log = git(folder, 'log', '--numstat', '-M', format, 'HEAD', '--not', ...known) ?? ''
  return log
    .split('\x01')
    .slice(1)
    .map((each) => {
      const [id = '', parents = '', subject = '', body = '', changes = ''] = each.split('\x02')
      const counts = [...changes.matchAll(/^(\d+)\t(\d+)\t/gm)]
      const lines = counts.reduce(
        (sum, [, added, removed]) => sum + Number(added) + Number(removed),
        0,
      )
      return { id, parents: parents.split(' ').length, subject, body: body.trim(), lines }
    })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const commits = newCommits(ROOT)
  const faults = commits.flatMap((commit) =>
    faultsOf(commit).map((fault) => `${commit.id} ${commit.subject}\n    ${fault}`),
  )
  for (const fault of faults) console.error(fault)
  console.log(`${commits.length} new commits, ${faults.length} faults in their messages`)
  if (faults.length > 0) process.exitCode = 1
}
