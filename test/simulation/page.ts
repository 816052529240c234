// Writes the generated parts of docs/simulation.md.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Figures } from './figures.ts'

/** Replaces the text between the markers of this part. */
export async function writeInto(part: string, text: string, name = 'simulation.md'): Promise<void> {
  const path = join(process.cwd(), 'docs', name)
  const [begin, end] = [`<!-- ${part}: begin -->`, `<!-- ${part}: end -->`]
  const page = await readFile(path, 'utf8')
  const [before = ''] = page.split(begin)
  const after = page.split(end)[1] ?? ''
  await writeFile(path, `${before}${begin}\n\n${text}\n\n${end}${after}`)
}

export function figuresTable(figures: Figures, wallMs: number): string {
  const hours = figures.simulatedMs / 3_600_000
  const rows: Array<readonly [string, number | string]> = [
    ['simulated hours', hours.toFixed(1)],
    ['wall time', `${(wallMs / 1_000).toFixed(0)} s (Node ${process.versions.node})`],
    ['episodes', figures.episodes],
    ['largest fleet', figures.mostProcesses],
    ['steps', figures.steps],
    ['commands executed by the server', figures.commands],
    ['calls of applications', figures.calls],
    ['purges', figures.purges],
    ['requests of users', figures.visits],
    ['requests of users that did not run the app', figures.visitsFromCache],
    ['lock requests', figures.locks],
    ['deliveries of idempotent jobs', figures.jobs],
    ['runs of idempotent jobs', figures.works],
    ['origin calls', figures.origin],
    ['lookups by the script', figures.scripted],
    ['lookups by a plain read of the record', figures.readFirst],
    ['lookups by an entry delivered with a wake-up', figures.told],
    ['fills committed', figures.committed],
    ['fills refused by the fence', figures.fenced],
    ['fills failed', figures.failed],
    [
      'longest time that a purged value was served elsewhere',
      `${figures.worstStalenessMs.toFixed(0)} ms`,
    ],
    ['purges lost in a fail-over (excluded)', figures.lostPurges],
    ['lost purges that their process restored', figures.restoredPurges],
  ]
  const faults = [...figures.faults].sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    '| | |',
    '|---|---:|',
    ...rows.map(([what, count]) => `| ${what} | ${count} |`),
    '',
    '| fault | times |',
    '|---|---:|',
    ...faults.map(([what, count]) => `| ${what} | ${count} |`),
  ].join('\n')
}
