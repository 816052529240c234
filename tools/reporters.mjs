// Reporters of Vitest. With STAMPEDE_TEST_REPORT, the run also writes a report for `.ci/total.mjs`.
// @ts-check
import { writeFileSync } from 'node:fs'

const { STAMPEDE_TEST_REPORT: report } = process.env

/** Errors outside of any test fail the run, but the JSON report of Vitest does not have them. */
const errorsBesideTests = {
  /**
   * @param {unknown} _modules
   * @param {readonly unknown[]} errors
   */
  onTestRunEnd(_modules, errors) {
    if (errors.length > 0) writeFileSync(`${report}.errors`, `${errors.length}\n`)
  },
}

/** @type {any[]} */
export const reporters = report
  ? ['default', ['json', { outputFile: report }], errorsBesideTests]
  : ['default']
