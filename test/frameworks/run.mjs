// Runs the published tests of frameworks without and with a cache in front of every server, and
// compares.
//
//   node test/frameworks/run.mjs --clones DIR [express|serve-static|express-session|...]
//
// DIR holds a clone of each, after `npm install` there. Needs `npm run build` here. Exits with 1 if
// a test differs that suites.mjs does not list, or if a listed test no longer differs.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { MEANT, SUITES } from './suites.mjs'

const { values, positionals } = parseArgs({
  options: { clones: { type: 'string' } },
  allowPositionals: true,
})
const unknown = positionals.filter((name) => !Object.hasOwn(SUITES, name))
if (values.clones === undefined || unknown.length > 0) {
  const names = Object.keys(SUITES).join('|')
  console.error(`usage: node test/frameworks/run.mjs --clones DIR [${names} ...]`)
  process.exit(2)
}

const preload = new URL('preload.mjs', import.meta.url).href
const scratch = mkdtempSync(join(tmpdir(), 'stampede-frameworks-'))
let isAsMeant = true
try {
  for (const name of positionals.length > 0 ? positionals : Object.keys(SUITES)) {
    if (!compare(name, resolve(values.clones, SUITES[name].folder))) isAsMeant = false
  }
} finally {
  rmSync(scratch, { recursive: true })
}
process.exitCode = isAsMeant ? 0 : 1

/** True if the suite differs only as intended. */
function compare(name, folder) {
  const bare = run(name, folder, '')
  const cached = run(name, folder, `--import=${preload}`)
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  console.log(`${name} ${version}: ${tally(bare)}; with a cache ${tally(cached)}`)
  const reasons = new Map()
  for (const { reason, tests } of MEANT[name] ?? [])
    for (const title of tests) reasons.set(title, reason)
  let asMeant = true
  for (const [title, { passed }] of bare) {
    const after = cached.get(title)
    const differs = passed !== (after?.passed ?? false)
    const reason = reasons.get(title)
    if (differs === (reason !== undefined) && !differs) continue
    if (differs && reason !== undefined) {
      console.log(`  meant: ${title}\n    ${reason}`)
    } else if (differs) {
      asMeant = false
      console.log(`  DIFFERS: ${title}\n    ${firstLine(after?.error) ?? 'was not run'}`)
    } else if (passed) {
      asMeant = false
      console.log(`  DOES NOT DIFFER any more, take it off the list: ${title}`)
    }
  }
  return asMeant
}

/** Results of the tests, by title. */
function run(name, folder, nodeOptions) {
  const { reporter, args, prepare } = SUITES[name]
  const file = join(scratch, `${name}${nodeOptions && '-cached'}.json`)
  const report =
    reporter === 'mocha'
      ? ['--reporter', 'json', '--reporter-option', `output=${file}`]
      : [
          `--test-reporter=${new URL('reporter.mjs', import.meta.url).href}`,
          `--test-reporter-destination=${file}`,
        ]
  const options = { cwd: folder, encoding: 'utf8' }
  if (prepare) spawnSync(prepare[0], prepare.slice(1), options)
  const all = reporter === 'mocha' ? [...args, ...report] : [...report, ...args]
  const env = { ...process.env, NODE_OPTIONS: nodeOptions }
  const { stderr, error } = spawnSync(process.execPath, all, { ...options, env })
  if (!existsSync(file)) throw error ?? new Error(`${name} did not run in ${folder}: ${stderr}`)
  const text = readFileSync(file, 'utf8')
  return outcomes(reporter === 'mocha' ? fromMocha(JSON.parse(text)) : fromNode(text))
}

function fromMocha({ passes, failures }) {
  return [
    ...passes.map(({ fullTitle }) => ({ title: fullTitle, passed: true })),
    ...failures.map(({ fullTitle, err }) => ({
      title: fullTitle,
      passed: false,
      error: err.message,
    })),
  ]
}

function fromNode(text) {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

/** Several tests may have one title: it passes if all of them do. */
function outcomes(tests) {
  const byTitle = new Map()
  for (const { title, passed, error } of tests) {
    const known = byTitle.get(title) ?? { count: 0, passed: true, error: undefined }
    byTitle.set(title, {
      count: known.count + 1,
      failed: (known.failed ?? 0) + (passed ? 0 : 1),
      passed: known.passed && passed,
      error: known.error ?? error,
    })
  }
  return byTitle
}

function tally(byTitle) {
  let [count, failed] = [0, 0]
  for (const each of byTitle.values()) {
    count += each.count
    failed += each.failed
  }
  return `${count - failed} of ${count} passed`
}

function firstLine(text) {
  return text?.split('\n', 1)[0]
}
