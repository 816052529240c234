// Small runs of the benchmark, with processes: checks what they count, and no times.
import { beforeAll, describe, expect, it } from 'vitest'
import { memoryPeers } from './data-peers.ts'
import { blockedMs, watchBlocking } from './held-origin.ts'
import type { OpenRow } from './run-open.ts'
import type { OpenScenario } from './scenarios.ts'
import { hits } from './tables.ts'

let runOpen: typeof import('./run-open.ts')['runOpen']
let runServers: typeof import('./run-servers.ts')['runServers']
let runCalls: typeof import('./run-calls.ts')['runCalls']
beforeAll(async () => {
  // Child processes run compiled code. `npm run bench:check` has just compiled it.
  const compiled = (name: string) =>
    import(/* @vite-ignore */ new URL(`../../dist/compare/${name}.js`, import.meta.url).href)
  const programs = ['run-open', 'run-servers', 'run-calls'].map(compiled)
  const [open, ofServers, ofCalls] = await Promise.all(programs)
  ;({ runOpen } = open)
  ;({ runServers } = ofServers)
  ;({ runCalls } = ofCalls)
})

const quiet = { ttlMs: 60_000, staleMs: 0, troubles: [], title: '' }
const requests = (key: (n: number) => string) => () =>
  Array.from({ length: 40 }, (_, n) => ({ atMs: n, key: key(n) }))
const scenarios: OpenScenario[] = [
  { ...quiet, id: 'burst', originMs: 100, arrivals: requests(() => 'cold') },
  { ...quiet, id: 'once', originMs: 1, arrivals: requests((n) => `once-${n}`) },
]

describe('a fleet of the benchmark', () => {
  it('counts one origin call per cold burst for Stampede, and one for each new key', async () => {
    const peers = [{ id: 'stampede', name: 'Stampede' }]
    const rows = await runOpen({ peers, scenarios, processes: 2, rounds: 1 })
    const figures = ({ scenario, originCalls, requests: sent, failed }: OpenRow) =>
      [scenario, originCalls.median, sent, failed] as const
    expect(rows.map(figures)).toEqual([
      ['burst', 1, 40, 0],
      ['once', 40, 40, 0],
    ])
    for (const { p50, p99 } of rows) expect(p99).toBeGreaterThanOrEqual(p50)
  })
})

describe('a run of the benchmark', () => {
  const plan = { title: 'test', rounds: 2, roundMs: 100, warmUpMs: 100, redisUrl: '' }

  it('measures rate and CPU of a server in each round, and of a data cache', async () => {
    const servers = hits.filter(({ id }) => id === 'koa-floor' || id === 'koa')
    const calls = { tier: 'memory', callers: 1, isEachNew: false } as const
    const caches = memoryPeers.filter(({ id }) => id === 'stampede')
    const rows = [
      ...(await runServers({ ...plan, rows: servers })),
      ...(await runCalls({ ...plan, ...calls, rows: caches })),
    ]
    expect(rows.map(({ id }) => id)).toEqual(['koa-floor', 'koa', 'stampede'])
    for (const { rounds } of rows) {
      expect(rounds).toHaveLength(2)
      for (const figure of rounds.flatMap((round) => [round.rate, round.cpuMicros]))
        expect(figure).toBeGreaterThan(0)
    }
  })
})

describe('how long an event loop was blocked', () => {
  it('is measured', async () => {
    await watchBlocking()
    const end = performance.now() + 100
    while (performance.now() < end);
    // A busy machine can only make the measured time longer.
    expect(await blockedMs()).toBeGreaterThanOrEqual(95)
  })
})
