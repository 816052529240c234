// Installs other versions of PostgreSQL when the tests on them first run (vitest.config.ts). Finds
// their programs.

import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { installOnDemand } from '../../tools/on-demand.mjs'
import { type PostgresSource, sourceIn } from './find-postgres.ts'

const FOLDER = fileURLToPath(new URL('postgres-versions', import.meta.url))

interface Link {
  readonly source: string
  readonly target: string
}

export function setup(project: TestProject): void {
  installOnDemand(FOLDER)
  const { optionalDependencies } = JSON.parse(readFileSync(join(FOLDER, 'package.json'), 'utf8'))
  const names: readonly string[] = Object.keys(optionalDependencies)
  // npm skips them on other systems than Linux on x64.
  const found = names.map((name) => programsOf(join(FOLDER, 'node_modules', name)))
  const versions = found.filter((source) => source !== undefined)
  const list = versions.map(({ version }) => version).join(', ')
  console.log(`Other versions of PostgreSQL for the tests: ${list || 'none for this system'}`)
  project.provide('postgresVersions', versions)
}

function programsOf(folder: string): PostgresSource | undefined {
  const links = join(folder, 'native/pg-symlinks.json')
  if (!existsSync(links)) return undefined
  // A tarball of npm has no links. A script of the package would make them, and scripts do not run.
  for (const { source, target } of JSON.parse(readFileSync(links, 'utf8')) as Link[]) {
    const path = join(folder, target)
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path)
  }
  return sourceIn(join(folder, 'native/bin'), ['initdb', 'postgres'])
}
