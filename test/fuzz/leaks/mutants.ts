// `npm run fuzz:mutants`: breaks the checks of Stampede one by one, fuzzes each broken cache, and
// writes README.md here. Exit status 1 if a mutant was not noticed.

import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { reported } from '../../simulation/launched.ts'
import { writeInto } from '../../simulation/page.ts'
import type { Mutation } from './mutation.ts'
import { MUTATIONS } from './mutations.ts'

const PAGE = 'test/fuzz/leaks/README.md'

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
    verdicts.push(verdict)
    const { scenarios, found = 'NOT NOTICED' } = verdict
    console.log(`${String(scenarios).padStart(5)}  ${mutation.name}: ${found}`)
  }
  await writePage(verdicts, values.seed)
  const noticed = verdicts.filter(({ found }) => found !== undefined)
  return noticed.length === chosen.length ? 0 : 1
}

async function tryOut(mutation: Mutation, args: readonly string[]): Promise<Verdict> {
  // A mutation breaks code in the process, so the store does not matter. Without Redis, many
  // scenarios run at the same time.
  const few = ['--minutes', '10', '--store', 'memory', ...args]
  if (mutation.framework) few.push('--framework', mutation.framework)
  const report = await reported<Omit<Verdict, 'name'>>(few, mutation.edits, 'main.ts')
  return { name: mutation.name, ...report }
}

/** Results of mutants that did not run now stay on the page. */
async function writePage(verdicts: readonly Verdict[], seed: string): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const counts = new Map<string, string>()
  for (const [, name = '', count = ''] of page.matchAll(/^\| (.*) \| (.*) \|$/gm)) {
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
  await writeInto(PAGE, 'mutants', rows.join('\n'))
}
