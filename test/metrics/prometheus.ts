// A real Prometheus on a free port, which scrapes one target. Its binary is the one on the PATH.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../harness/free-port.ts'
import { guard, signal } from '../harness/guard.ts'
import { waitUntil } from '../harness/wait-until.ts'

/** The path of a program of the Debian package `prometheus`. Undefined: it is not installed. */
export function findProgram(name: 'prometheus' | 'promtool'): string | undefined {
  try {
    return execFileSync('which', [name], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}

/** Added to the title of tests that are skipped. */
export const HOW_TO_INSTALL =
  ' (skipped: prometheus and promtool are not on the PATH; apt-get install prometheus)'

export interface Result {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [time: number, value: string]
}

export interface Rule {
  readonly name: string
  /** `ok`, `err` or `unknown`. */
  readonly health: string
}

export interface Prometheus extends AsyncDisposable {
  /** The result of an instant query. Rejects with the error of Prometheus. */
  query(expression: string): Promise<Result[]>
  /** Names of all metrics that were scraped. */
  names(): Promise<string[]>
  rules(): Promise<Rule[]>
}

/** `rules`: path of a file with alert rules. */
export async function startPrometheus(
  path: string,
  target: string,
  rules: string,
): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), 'stampede-prometheus-'))
  const port = await freePort()
  const config = {
    global: { scrape_interval: '250ms', scrape_timeout: '250ms', evaluation_interval: '250ms' },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'shop', static_configs: [{ targets: [target] }] }],
  }
  // JSON is YAML.
  await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const child = spawn(
    path,
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let output = ''
  child.stderr.on('data', (chunk) => {
    output = (output + chunk).slice(-4_000)
  })
  await once(child, 'spawn')
  const { pid = 0 } = child
  child.once('exit', guard(pid))

  async function ask<T>(path: string): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    const { data, error } = (await response.json()) as { data: T; error?: string }
    if (error !== undefined) throw new Error(`${path}: ${error}`)
    return data
  }
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => {
        if (child.exitCode !== null) throw new Error(`Prometheus has exited:\n${output}`)
        return false
      },
    )
  await waitUntil('Prometheus is ready', isReady, 30_000)
  return {
    query: async (expression) => {
      const path = `query?query=${encodeURIComponent(expression)}`
      return (await ask<{ result: Result[] }>(path)).result
    },
    names: () => ask<string[]>('label/__name__/values'),
    rules: async () => {
      const { groups } = await ask<{ groups: { rules: Rule[] }[] }>('rules')
      return groups.flatMap(({ rules }) => rules)
    },
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      if (child.exitCode === null && signal(pid, 'SIGKILL')) await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}
