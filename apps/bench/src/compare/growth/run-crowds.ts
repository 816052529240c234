// Runs many clients that wait for one cold page of one process. Each has its own connection.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Child, startChild } from '../lib/child.ts'
import { medianOf } from '../lib/statistics.ts'
import type { CrowdResponses } from './crowd-clients.ts'
import type { Sizes } from './sizes.ts'

export interface CrowdRow {
  readonly subject: string
  readonly clients: number
  readonly originCalls: number
  /** Time from the end of the origin until the last response has arrived. */
  readonly respondedMs: number
  /** The longest time in that period for which the server's event loop was blocked. */
  readonly blockedMs: number
}

/** Express alone is the floor: it runs the handler for each request. */
const SUBJECTS = ['express', 'stampede']

export async function runCrowds({ crowds, rounds }: Sizes): Promise<CrowdRow[]> {
  const rows: CrowdRow[] = []
  await using clients = await startChild('growth/crowd-clients.js')
  for (const subject of SUBJECTS) {
    await using server = await startChild('growth/crowd-server.js', [subject])
    const port = await server.ask<number>('port')
    for (const count of crowds) {
      await clients.ask('gather', { port, clients: count })
      const seen: Omit<CrowdRow, 'subject' | 'clients'>[] = []
      for (let round = 0; round <= rounds; round++) {
        seen.push(await crowd(server, clients, count, `/items/${count}-${round}`))
      }
      rows.push({ subject, clients: count, ...medians(seen.slice(1)) })
    }
  }
  return rows
}

async function crowd(server: Child, clients: Child, count: number, path: string) {
  await server.ask('hold')
  const asking = clients.ask<CrowdResponses>('ask', path)
  while ((await server.ask<number>('arrived')) < count) await sleep(10)
  const releasedAtMs = await server.ask<number>('release')
  const { lastAtMs, failed } = await asking
  const seen = await server.ask<{ originCalls: number; blockedMs: number }>('seen')
  if (failed > 0) throw new Error(`${failed} of ${count} clients got no response`)
  return { ...seen, respondedMs: lastAtMs - releasedAtMs }
}

const medians = (seen: readonly Omit<CrowdRow, 'subject' | 'clients'>[]) => ({
  originCalls: medianOf(seen.map(({ originCalls }) => originCalls)),
  respondedMs: medianOf(seen.map(({ respondedMs }) => respondedMs)),
  blockedMs: medianOf(seen.map(({ blockedMs }) => blockedMs)),
})
