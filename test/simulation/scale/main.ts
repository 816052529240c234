// `npm run scale`: simulates, measures and computes the costs of a large fleet, and writes
// docs/evidence/scale.md.

import { parseArgs } from 'node:util'
import { inMacrotask } from '../drain.ts'
import { writeInto } from '../page.ts'
import { crossCheck } from './cross-check.ts'
import { busyBurst, costsOf } from './large-fleet.ts'
import { measure } from './measure.ts'
import { busyTable, checkTable, fleetTable, measuredTable, modelTable } from './tables.ts'

const PAGE = 'docs/evidence/scale.md'

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      /** The largest fleet. Ten thousand processes take some minutes and 4 GB. */
      processes: { type: 'string', default: '10000' },
      /** Runs only one of the five parts. */
      only: { type: 'string', default: '' },
    },
  })
  const most = Number(values.processes)
  const sizes = [most / 100, most / 10, most].filter((each) => each >= 10)
  const isWanted = (part: string) => values.only === '' || values.only === part
  if (isWanted('model')) await write('model', modelTable(most))
  if (isWanted('check')) await write('check', checkTable(await inMacrotask(crossCheck)))
  if (isWanted('measured')) {
    const measured = []
    for (const size of [10, ...sizes]) measured.push(await measure(size))
    await write('measured', measuredTable(measured))
  }
  if (isWanted('busy')) {
    const bursts = []
    for (const size of [most / 10, most / 4, most / 2, most]) {
      bursts.push(await inMacrotask(() => busyBurst(size)))
    }
    await write('busy', busyTable(bursts))
  }
  if (isWanted('fleet')) {
    const costs = []
    for (const size of sizes) costs.push([size, await inMacrotask(() => costsOf(size))] as const)
    await write('fleet', fleetTable(costs))
  }
  return 0
}

async function write(part: string, table: string): Promise<void> {
  console.log(table)
  await writeInto(PAGE, part, table)
}
