// Writes the page of a run and its raw results, as JSON, beside the page.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const DOCS: string = fileURLToPath(new URL('../../../docs', import.meta.url))

export function publish(folder: string, name: string, page: string, raw: object): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.md`), page)
  writeFileSync(join(folder, `${name}.json`), inJson(raw))
}

/** The sentence about raw results on every page. */
export const rawResultsOf = (name: string): string =>
  `[${name}.json](${name}.json) has the raw results of this run.`

export interface Arguments {
  /** `--out FOLDER`: the folder for page and raw results, also for a part of a run. */
  readonly folder: string | undefined
  /** Ids of the parts to run. Empty: all. */
  readonly ids: ReadonlySet<string>
}

export function readArguments(args: readonly string[]): Arguments {
  const at = args.indexOf('--out')
  if (at < 0) return { folder: undefined, ids: new Set(args) }
  const folder = args[at + 1]
  if (folder === undefined) throw new Error('bench: --out needs a folder')
  return { folder, ids: new Set(args.toSpliced(at, 2)) }
}

/** Lists of numbers are on one line each. More than five digits say nothing about a measurement. */
export function inJson(raw: object): string {
  const text = JSON.stringify(raw, (_key, value) => (isFraction(value) ? rounded(value) : value), 1)
  const onOneLine = text.replace(/\[\s+(-?\d[-\d.e+,\s]*?)\s+\]/g, (_all, numbers: string) => {
    return `[${numbers.replace(/\s+/g, ' ')}]`
  })
  return `${onOneLine}\n`
}

const isFraction = (value: unknown): value is number =>
  typeof value === 'number' && !Number.isInteger(value)

const rounded = (value: number): number => Number(value.toPrecision(5))
