// Arguments of a program, facts about its run, and its page with the raw results beside it.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, platform, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installed } from './markdown.ts'

/** Folder of the pages and raw results that the repository has. */
export const RESULTS: string = fileURLToPath(new URL('../../results', import.meta.url))

export interface Arguments {
  /** Ids of parts, rows or columns to run. Empty: all. */
  readonly ids: ReadonlySet<string>
  /** `--quick`: a short run that only shows that everything works. Its figures mean nothing. */
  readonly isQuick: boolean
  /** `--out FOLDER`: the folder for page and raw results, also for a part of a run. */
  readonly folder: string | undefined
}

export function readArguments(args: readonly string[]): Arguments {
  const ids = new Set<string>()
  let isQuick = false
  let folder: string | undefined
  for (let i = 0; i < args.length; i++) {
    const each = args[i] ?? ''
    if (each === '--quick') isQuick = true
    else if (each === '--out') {
      folder = args[++i]
      if (folder === undefined) throw new Error('bench: --out needs a folder')
    } else if (each === '--only' || each === '--rows') {
      for (const id of (args[++i] ?? '').split(',')) ids.add(id)
    } else if (each.startsWith('--')) throw new Error(`bench: unknown argument ${each}`)
    else ids.add(each)
  }
  return { ids, isQuick, folder }
}

export const chosen = <T extends { readonly id: string }>(
  all: readonly T[],
  ids: ReadonlySet<string>,
): readonly T[] => (all.some(({ id }) => ids.has(id)) ? all.filter(({ id }) => ids.has(id)) : all)

/** Date, commit, machine and its load, and the installed packages, as they are before the run. */
export function runInfo() {
  const git = { cwd: RESULTS, encoding: 'utf8' } as const
  const [cpu] = cpus()
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  const own = new URL('../../package.json', import.meta.url)
  const { dependencies } = JSON.parse(readFileSync(own, 'utf8'))
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], git).trim(),
    node: process.version,
    machine: `${cpus().length} × ${cpu?.model.trim() || 'an unnamed processor'}, ${gibibytes} GiB, ${platform()}`,
    /** Load average of the machine in the five minutes before the run. */
    loadBefore: loadavg()[1] ?? 0,
    since: performance.now(),
    packages: Object.keys(dependencies).map(installed),
  }
}

export type RunInfo = ReturnType<typeof runInfo>

/** Values for the template of a page: date, commit, machine and time of the run. */
export const valuesOf = (page: string, info: RunInfo): Record<string, string> => ({
  ...{ date: info.date, commit: info.commit, node: info.node, machine: info.machine },
  seconds: String(Math.round((performance.now() - info.since) / 1_000)),
  raw: `[${page}.json](${page}.json) has the raw results of this run.`,
})

export function publish(folder: string, name: string, page: string, raw: object): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.md`), page)
  writeFileSync(join(folder, `${name}.json`), inJson(raw))
}

/** Lists of numbers are on one line each. More than five digits say nothing about a measurement. */
export function inJson(raw: object): string {
  const rounded = (value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value
  const text = JSON.stringify(raw, (_key, value) => rounded(value), 1)
  const onOneLine = text.replace(
    /\[\s+(-?\d[-\d.e+,\s]*?)\s+\]/g,
    (_all, numbers: string) => `[${numbers.replace(/\s+/g, ' ')}]`,
  )
  return `${onOneLine}\n`
}
