// Writes the generated parts of docs/evidence and of README.md in this folder.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Figures } from './figures.ts'

export const EVIDENCE = 'docs/evidence/simulation.md'
export const README = 'test/simulation/README.md'

/** Replaces the text between the markers of this part of a page. */
export async function writeInto(page: string, part: string, text: string): Promise<void> {
  const path = join(process.cwd(), page)
  const [begin, end] = [`<!-- ${part}: begin -->`, `<!-- ${part}: end -->`]
  const old = await readFile(path, 'utf8')
  const [before = ''] = old.split(begin)
  const after = old.split(end)[1] ?? ''
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
  return table(['', ''], rows)
}

export function faultsTable({ faults }: Figures): string {
  const rows = [...faults].sort(([a], [b]) => (a < b ? -1 : 1))
  return table(['fault', 'times'], rows)
}

const table = (head: readonly string[], rows: ReadonlyArray<readonly [string, number | string]>) =>
  [
    `| ${head.join(' | ')} |`,
    '|---|---:|',
    ...rows.map(([what, count]) => `| ${what} | ${count} |`),
  ].join('\n')
