// Writes the page with its plots.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pageOf } from './page.ts'
import { plotsOf } from './plots.ts'
import type { Results } from './results.ts'

export function writePage(folder: string, results: Results): void {
  const plots = join(folder, 'benchmarks')
  mkdirSync(plots, { recursive: true })
  writeFileSync(join(folder, 'benchmarks.md'), pageOf(results))
  for (const [name, svg] of plotsOf(results)) writeFileSync(join(plots, name), svg)
}
