// The order of test files. Vitest starts files with a long last run first, and in a fresh clone
// large files. A file of a contract is small, although it runs a whole suite, and tests of leases
// wait for them to end. Started last, these would run alone at the end.

import { BaseSequencer, type TestSpecification } from 'vitest/node'

const LONG = /\/test\/(?:contracts|idempotency|locks|long|older-beside|nest-older|site)\//

export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const projects = [...new Set(sorted.map(({ project }) => project.name))]
    const place = ({ project, moduleId }: TestSpecification) =>
      2 * projects.indexOf(project.name) + (LONG.test(moduleId) ? 0 : 1)
    return sorted.toSorted((a, b) => place(a) - place(b))
  }
}
