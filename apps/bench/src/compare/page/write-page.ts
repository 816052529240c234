// Writes the page with its raw results and its plots.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publish } from '../../publish.ts'
import { versionsOf } from '../../torture/versions.ts'
import { pageOf } from './page.ts'
import { plotsOf } from './plots.ts'
import type { Results } from './results.ts'
import { setUps } from './set-ups.ts'

export function writePage(folder: string, results: Results): void {
  const plots = join(folder, 'benchmarks')
  mkdirSync(plots, { recursive: true })
  const versions = Object.fromEntries(setUps.map((each) => [each.name, versionsOf(each)]))
  publish(folder, 'benchmarks', pageOf(results), { ...results, versions })
  for (const [name, svg] of plotsOf(results)) writeFileSync(join(plots, name), svg)
}
