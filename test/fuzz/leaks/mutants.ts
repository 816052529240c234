// `npm run fuzz:mutants`: breaks the checks of Stampede one by one, fuzzes each broken cache, and
// writes README.md here. Exit status 1 if a mutant was not noticed.

import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import type { Mutation } from './mutation.ts'
import { MUTATIONS } from './mutations.ts'

const HERE = join(process.cwd(), 'test', 'fuzz', 'leaks')
const PAGE = join(HERE, 'README.md')
const BEGIN = '<!-- mutants: begin -->'
const END = '<!-- mutants: end -->'

interface Verdict {
  readonly name: string
  readonly scenarios: number
  readonly found: string | undefined
}

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: '1' },
      scenarios: { type: 'string', default: '5000' },
      only: { type: 'string', multiple: true, default: [''] },
    },
  })
  const chosen = MUTATIONS.filter(({ name }) => values.only.some((part) => name.includes(part)))
  const verdicts: Verdict[] = []
  for (const mutation of chosen) {
    const verdict = await tryOut(mutation, ['--seed', values.seed, '--scenarios', values.scenarios])
    if (verdict === undefined) continue
    verdicts.push(verdict)
    const { scenarios, found = 'NOT NOTICED' } = verdict
    console.log(`${String(scenarios).padStart(5)}  ${mutation.name}: ${found}`)
  }
  await writePage(verdicts, values.seed)
  const noticed = verdicts.filter(({ found }) => found !== undefined)
  return noticed.length === chosen.length ? 0 : 1
}

async function tryOut(mutation: Mutation, args: readonly string[]): Promise<Verdict | undefined> {
  const env = { ...process.env, STAMPEDE_MUTATION: JSON.stringify(mutation) }
  // A mutation breaks code in the process, so the store does not matter. Without Redis, many
  // scenarios run at the same time.
  const few = ['--report', '--minutes', '10', '--store', 'memory', ...args]
  if (mutation.framework) few.push('--framework', mutation.framework)
  const command = [join(HERE, 'launch.mjs'), 'main.ts', ...few]
  const { stdout, stderr } = await promisify(execFile)(process.execPath, command, { env }).catch(
    // Status 1 means that the fuzzer noticed the mutant.
    (error: { stdout: string; stderr: string }) => error,
  )
  const line = stdout.trim().split('\n').at(-1) ?? ''
  if (!line.startsWith('{')) {
    console.log(`DID NOT RUN  ${mutation.name}: ${stderr}`)
    return undefined
  }
  return { name: mutation.name, ...JSON.parse(line) }
}

/** Results of mutants that did not run now stay on the page. */
async function writePage(verdicts: readonly Verdict[], seed: string): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const [before = '', table = ''] = page.split(BEGIN)
  const after = page.split(END)[1] ?? ''
  const counts = new Map<string, string>()
  for (const [, name = '', count = ''] of table.matchAll(/^\| (.*) \| (.*) \|$/gm)) {
    counts.set(name, count)
  }
  for (const { name, scenarios, found } of verdicts) {
    counts.set(name, found === undefined ? `**not** in ${scenarios}` : `${scenarios}`)
  }
  const rows = [
    `Seeds from ${seed} on, memory store; Node ${process.versions.node}.`,
    '',
    '| mutant | noticed after scenarios |',
    '|---|---|',
    ...MUTATIONS.map(({ name }) => `| ${name} | ${counts.get(name) ?? '**not** run'} |`),
  ]
  await writeFile(PAGE, `${before}${BEGIN}\n\n${rows.join('\n')}\n\n${END}${after}`)
}
