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
    ['of them answered without a run of the app of their own', figures.visitsFromCache],
    ['locks asked for', figures.locks],
    ['idempotent jobs asked for', figures.jobs],
    ['runs of their work', figures.works],
    ['origin calls', figures.origin],
    ['look-ups answered by the script', figures.scripted],
    ['by a plain read of the record', figures.readFirst],
    ['by what the process was told with the word that woke it', figures.told],
    ['fills committed', figures.committed],
    ['fills refused by the fence', figures.fenced],
    ['fills failed', figures.failed],
    ['worst staleness after a purge elsewhere', `${figures.worstStalenessMs.toFixed(0)} ms`],
    ['purges lost with the data of a fail-over, so excluded', figures.lostPurges],
    ['until they held again, as their process was there', figures.restoredPurges],
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
