// `npm run simulate:mutants`: breaks the protocol part by part, simulates each, and writes
// README.md in this folder. Exit status 1 if a mutant was not noticed.

import { parseArgs } from 'node:util'
import type { Mutation } from '../fuzz/leaks/mutation.ts'
import { reported } from './launched.ts'
import { MUTATIONS } from './mutations.ts'
import { README, writeInto } from './page.ts'

interface Verdict {
  readonly name: string
  readonly minutes: string
  readonly steps: number
  /** The seed of the episode that noticed it, and the steps until then. */
  readonly seed?: number
  readonly lastSteps?: number
  readonly found?: string
}

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: '1' },
      hours: { type: 'string', default: '2.5' },
      only: { type: 'string', default: '' },
    },
  })
  const chosen = MUTATIONS.filter(({ name }) => name.includes(values.only))
  const verdicts: Verdict[] = []
  for (const mutation of chosen) {
    const { seed: first, hours } = values
    // Long episodes have more events in them, short ones meet more kinds of faults and plans.
    let verdict = await tryOut(mutation, first, hours, '3')
    if (verdict.found === undefined) verdict = await tryOut(mutation, first, hours, '1')
    verdicts.push(verdict)
    const { seed = 0, lastSteps = 0, found = 'NOT NOTICED' } = verdict
    console.log(`${verdict.name}\n    seed ${seed}, step ${lastSteps}: ${found}`)
  }
  if (chosen.length === MUTATIONS.length) {
    await writeInto(README, 'mutants', table(verdicts, values.seed))
  }
  return verdicts.every(({ found }) => found !== undefined) ? 0 : 1
}

async function tryOut(
  mutation: Mutation,
  seed: string,
  hours: string,
  minutes: string,
): Promise<Verdict> {
  const args = ['--seed', seed, '--hours', hours, '--minutes', minutes]
  const report = await reported<Omit<Verdict, 'name' | 'minutes'>>(args, mutation.edits)
  return { name: mutation.name, minutes, ...report }
}

function table(verdicts: readonly Verdict[], seed: string): string {
  return [
    `Seeds from ${seed} on.`,
    '',
    '| mutant | seed | minutes | steps | broken rule | what happened |',
    '|---|---:|---:|---:|---|---|',
    ...verdicts.map(({ name, minutes, seed: noticed, steps, found }) => {
      if (found === undefined) return `| ${name} | | | ${steps} | **not noticed** | |`
      const end = found.indexOf(': ')
      const [rule, seen] = [found.slice(0, end), found.slice(end + 2)].map(shown)
      return `| ${name} | ${noticed} | ${minutes} | ${steps} | ${rule} | ${seen} |`
    }),
  ].join('\n')
}

/** Shortens the names of records, which are long keyed hashes. */
function shown(text: string): string {
  return text
    .replaceAll('|', '\\|')
    .replaceAll('\0', '\\0')
    .replaceAll(/stampede:4:\{=([^}]{1,12})[^}]*\}/g, '$1')
}
