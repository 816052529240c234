// docs/benchmarks.md: its sentences are written here, every figure comes from a run.
import { rawResultsOf } from '../../publish.ts'
import { versionsOf } from '../../torture/versions.ts'
import { callTable } from '../data/table.ts'
import { hitTable } from '../hit/table.ts'
import { table } from '../lib/markdown.ts'
import { openTables } from '../open/tables.ts'
import { crowdTable, fleetTable, keysTable, waitersTable } from './growth-tables.ts'
import { idempotencyTable, lockTable } from './other-pages.ts'
import type { Growth, Results } from './results.ts'
import { setUps } from './set-ups.ts'
import { shortfalls } from './shortfalls.ts'
import { targetsOf } from './targets.ts'

export const pageOf = (results: Results): string =>
  [
    intro(results),
    targetSection(results),
    shortfallSection(results),
    results.hits && `${HITS}\n\n${plot('hits')}\n\n${hitTable(results.hits)}`,
    results.calls && `${MEMORY}\n\n${plot('memory')}\n\n${callTable(results.calls)}`,
    results.redisHits &&
      results.redisMisses &&
      redisSection(results.redisHits, results.redisMisses),
    results.open &&
      `${OPEN}\n\n${plot('origin-calls')}\n\n${plot('latency')}\n\n${openTables(results.open)}`,
    results.growth && growthSection(results.growth),
    ...(isWhole(results) ? [OTHERS, setUpSection()] : []),
  ]
    .filter((section) => section !== undefined)
    .join('\n\n')
    .concat('\n')

/** Else it is for looking at: not published. */
const isWhole = ({ hits, calls, redisHits, open, growth }: Results): boolean =>
  [hits, calls, redisHits, open, growth].every((part) => part !== undefined)

const plot = (name: string): string => `![${PLOTS[name]}](benchmarks/${name}.svg)`

const PLOTS: Readonly<Record<string, string>> = {
  hits: 'Requests a second, of hits on every server in JavaScript',
  memory: 'Calls a second of hits in memory',
  redis: 'Calls a second of hits and misses over Redis',
  'origin-calls': 'Origin calls in every scenario',
  latency: 'p99 of the latency in every scenario',
  processes: 'Origin calls as there are more processes',
  waiters: 'Time until all callers have the value, as there are more',
}

function intro(results: Results): string {
  const { seconds, redisVersion, command, date, commit, node, machine, loadBefore: load } = results
  const redis = redisVersion === undefined ? '' : `, Redis ${redisVersion}`
  return `# Benchmarks

Written by \`${command}\` on ${date} at ${commit}: Node ${node}${redis}, ${machine}; it took ${Math.round(seconds)} s.
${isWhole(results) ? EVERY_FIGURE : A_PART} ${rawResultsOf('benchmarks')}

- **Compare the ratios.** Absolute figures are those of one machine, on which server, load and Redis share the cores. ${otherWork(load)}
- **Rounds are interleaved**: everybody once, then everybody again. A figure is the median of its rounds; the spread is the lowest and
  the highest. A ratio is made in each round, and then the median is taken.
- **A hit is a hit**: the run ends with an error if the origin was called in a round of hits, if a byte count differs, or if a cache
  gives another value than the origin made.
- Every server and every cache is a process of its own with \`NODE_ENV=production\`, warm before it is measured. The load comes from
  another process.
- Each was set up as its documentation says, for speed where it says so: see the [end](#set-up). Correct a set-up or add a row in
  \`apps/bench/src/compare\`.
- What goes wrong when something fails is on [another page](torture.md).`
}

const EVERY_FIGURE = `Caches side by side in one run. Every figure is what the run saw, but for those of locks and idempotency, which have runs of
their own; the sentences and the targets were written before.`
const A_PART =
  '**A part of a run**: for looking at. `npm run bench` alone writes docs/benchmarks.md.'

const otherWork = (load: number): string =>
  load < 1.5
    ? 'It had little other work before.'
    : `**It had other work**: its load was ${load.toFixed(1)} before the run, so that also the ratios are uncertain.`

function targetSection(results: Results): string | undefined {
  const targets = targetsOf(results)
  if (targets.length === 0) return undefined
  const rows = targets.map(({ what, wanted, seen, isMet }) => [
    what,
    wanted,
    seen,
    isMet ? 'met' : '**not met**',
  ])
  return `## Targets\n\n${table(['', 'wanted', 'seen', ''], rows)}`
}

function shortfallSection(results: Results): string {
  const found = shortfalls(results)
  const list = found.map((line) => `- ${line}`).join('\n')
  return `## Where Stampede is behind

From the same run, on servers, calls, fleets, callers and clients: every median in which another, or no cache at all, was better. Times count
if they differ by more than a millisecond.

${list || '- Nothing.'}`
}

const HITS = `## What a hit costs

The same 2.3 kB of JSON from every server, 50 connections, each with one request at a time. *Ready bytes* is the floor: the framework
writes a Buffer with as many header fields as a hit of ours has. *CPU* is what the server's process used for a request, garbage
collection and compilation included; it says more than the rate when the machine has other work. Where
the load's own process uses as much (last column), the rate is no longer the server's. nginx and Varnish are not in
JavaScript: they are there to show how far away they are. *÷ floor* is the median of the ratios of all rounds, and not the ratio of the
medians beside it: the machine is faster in some rounds than in others.
On Express, our cache and apicache stand before the routes, as their READMEs put them. A hit is not routed, and neither is their floor.`

const MEMORY = `## A hit in memory

\`getOrSet\` and what others call it, from inside: one caller, 1000 keys in turn, an object of 2.3 kB. The first row only looks into a
Map with a limit. Stampede gives everybody the same frozen object; bentocache (\`serialize: false\`), cacheable (\`useClone: false\`), async-cache-dedupe and
layered-loader give everybody the same object, which a caller can change for all others.`

function redisSection(hits: Parameters<typeof callTable>[0], misses: typeof hits): string {
  return `## The Redis tier

No memory tier, 50 callers, 2.3 kB. A hit: 1000 keys in turn. A miss: a key that nobody asked for before, from an origin that takes no
time, so that only the cache is left. The first rows are bare commands: a key read, and set if it was not there. On a miss Stampede
takes a lease and commits under a fence, by two scripts; the others write with nothing to stop a stale write.

${plot('redis')}

Hits:

${callTable(hits)}

Misses:

${callTable(misses)}`
}

const OPEN = `## Fleets under load

Four processes of Express 5 with one Redis, and an open loop: requests come by a Poisson process with a seed, the same for every
cache, whether or not the ones before have been answered. Latency counts from the moment a request was to be sent, so that a server
that stalls is charged for those who wait; the sender itself may be up to a millisecond late. The percentiles are of all rounds
together, origin calls are of one round. A request without an answer after 5 s has failed.`

function growthSection({ keys, pages, fleets, waiters, crowds }: Growth): string {
  return `## As it grows

**Keys.** The memory tier alone. Memory is what the heap and its buffers hold after a garbage collection. Hits go through all keys in
an order that no processor cache likes; an object that nobody holds may have to be read from its JSON again.

${keysTable(keys)}

A response has header fields besides: one with a body of ${pages.bodyBytes} bytes took ${Math.round(pages.memoryBytes)} bytes, the mean of ${pages.entries}; the
memory tier counted ${Math.round(pages.countedBytes)}.

**Processes.** A cold key, 25 callers in each process, an origin that takes 100 ms.

${plot('processes')}

${fleetTable(fleets)}

**Callers.** \`getOrSet\` of one cold key in one process, over Redis.

${plot('waiters')}

${waitersTable(waiters)}

**Clients.** The same over HTTP, each client on a connection of its own: Express with \`stampedeCache\`, and Express alone.

${crowdTable(crowds)}`
}

const OTHERS = `## Locks and idempotency

Locks have [a benchmark of their own](benchmarks-locks.md), \`npm run bench:locks\`; on the machine and at the commit that it names, it found:

${lockTable()}

With idempotency keys the question is who is right, [row by row](idempotency-compared.md), \`npm run bench:idempotency\`:

${idempotencyTable()}`

const setUpSection = (): string => {
  const lines = setUps.map((each) => `- ${each.name}: ${each.setUp} (${versionsOf(each)})`)
  return `## Set-up\n\n${lines.join('\n')}`
}
