// Runs the suites and the checks, prints each failed test, and ends with the total of all suites.
//
// The files of failed tests run once more, one at a time. On a busy machine a process can stand
// still for seconds, and a test that passes alone says nothing against the code. It is printed as
// UNSTABLE and is a fault to fix next, but does not refuse the change. If many files failed, the
// code is the cause: nothing runs again.
// @ts-check
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'

/** Scripts of package.json whose Vitest writes a report. The first is the command of the README. */
const SUITES = ['test', 'test:soak', 'bench:check']
const MOST_FILES_AGAIN = 4

/**
 * @typedef {{ file: string, title: string, message: string }} Failure
 * @typedef {{ passed: number, skipped: number, failures: Failure[], broken: string[] }} Result
 */

const reports = mkdtempSync(join(tmpdir(), 'stampede-ci-'))
process.on('exit', () => rmSync(reports, { recursive: true, force: true }))

const results = SUITES.map(runSuite)
const checked = spawnSync('npm', ['run', 'check'], { stdio: 'inherit' }).status === 0

const failures = results.flatMap(({ failures }) => failures)
for (const { unstable } of results)
  for (const { file, title } of unstable) console.log(`UNSTABLE ${file} > ${title}`)
for (const { file, title, message } of failures)
  console.log([`FAILED ${file} > ${title}`, ...firstLines(message)].join('\n'))
const broken = results.flatMap(({ broken }) => broken)
for (const line of broken) console.log(`FAILED ${line}`)
if (!checked) console.log('FAILED npm run check: see its output above')

/** @param {'passed' | 'skipped'} count */
const total = (count) => results.reduce((sum, result) => sum + result[count], 0)
const counts = [`${total('passed')} passed`, `${failures.length} failed`]
if (total('skipped')) counts.push(`${total('skipped')} skipped`)
console.log(counts.join(', '))
process.exitCode = failures.length === 0 && broken.length === 0 && checked ? 0 : 1

/**
 * @param {string} script
 * @returns {Result & { unstable: Failure[] }}
 */
function runSuite(script) {
  const result = run(script, [])
  const files = [...new Set(result.failures.map(({ file }) => file))]
  if (files.length === 0 || files.length > MOST_FILES_AGAIN || result.broken.length > 0)
    return { ...result, unstable: [] }

  const again = run(script, ['--no-file-parallelism', ...files])
  if (again.broken.length > 0) return { ...result, unstable: [] }
  const named = ({ file, title }) => `${file} > ${title}`
  const failedAgain = new Set(again.failures.map(named))
  const unstable = result.failures.filter((failure) => !failedAgain.has(named(failure)))
  return {
    passed: result.passed + unstable.length,
    skipped: result.skipped,
    failures: again.failures,
    broken: [],
    unstable,
  }
}

/**
 * @param {string} script
 * @param {string[]} args
 * @returns {Result}
 */
function run(script, args) {
  const path = join(reports, `${script.replace(':', '-')}${args.length > 0 ? '-again' : ''}.json`)
  const { status } = spawnSync('npm', ['run', script, '--', ...args], {
    stdio: 'inherit',
    // The configurations of Vitest read it.
    env: { ...process.env, STAMPEDE_TEST_REPORT: path },
  })
  if (!existsSync(path)) {
    const broken = [`npm run ${script}: no report was written`]
    return { passed: 0, skipped: 0, failures: [], broken }
  }
  const report = JSON.parse(readFileSync(path, 'utf8'))
  const failures = report.testResults.flatMap(failuresOf)
  // An error outside of a test is in no report. Then only the exit code tells.
  const silent = status !== 0 && (failures.length === 0 || existsSync(`${path}.errors`))
  return {
    passed: report.numPassedTests,
    skipped: report.numPendingTests + report.numTodoTests,
    failures,
    broken: silent ? [`npm run ${script}: exit code ${status}, see its output above`] : [],
  }
}

/**
 * The failed tests of a file. A file that could not be loaded, or whose hook threw, is one failure.
 *
 * @returns {Failure[]}
 */
function failuresOf({ name, status, message, assertionResults }) {
  const file = relative('.', name)
  const failures = assertionResults
    .filter((test) => test.status === 'failed')
    .map(({ fullName, failureMessages }) => ({
      file,
      title: fullName,
      message: failureMessages[0] ?? '',
    }))
  if (status === 'failed' && failures.length === 0)
    failures.push({ file, title: '(the file itself)', message: message || 'A hook threw.' })
  return failures
}

/** @param {string} message */
function firstLines(message) {
  const lines = stripVTControlCharacters(message).split('\n').slice(0, 3)
  return lines.map((line) => `    ${line.slice(0, 300)}`)
}
