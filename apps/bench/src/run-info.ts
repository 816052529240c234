// Date, commit and machine of a run, for pages and raw results.
import { execFileSync } from 'node:child_process'
import { cpus, platform, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

export interface RunInfo {
  readonly date: string
  readonly commit: string
  readonly node: string
  readonly machine: string
}

export const runInfo = (): RunInfo => ({
  date: new Date().toISOString().slice(0, 10),
  commit: commit(),
  node: process.version,
  machine: machine(),
})

function commit(): string {
  const cwd = fileURLToPath(new URL('.', import.meta.url))
  return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd, encoding: 'utf8' }).trim()
}

function machine(): string {
  const [cpu] = cpus()
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  const model = cpu?.model.trim() || 'an unnamed processor'
  return `${cpus().length} × ${model}, ${gibibytes} GiB, ${platform()}`
}
