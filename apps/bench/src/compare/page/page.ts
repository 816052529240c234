// Renders docs/benchmarks.md: the sentences are written here, and every figure comes from a run.
import { rawResultsOf } from '../../publish.ts'
import { versionsOf } from '../../torture/versions.ts'
import { callTable } from '../data/table.ts'
import { hitTable } from '../hit/table.ts'
import { listItem, table } from '../lib/markdown.ts'
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

/** A part of a run is not published. */
const isWhole = ({ hits, calls, redisHits, open, growth }: Results): boolean =>
  [hits, calls, redisHits, open, growth].every((part) => part !== undefined)

const plot = (name: string): string => `![${PLOTS[name]}](benchmarks/${name}.svg)`

const PLOTS: Readonly<Record<string, string>> = {
  hits: 'Requests a second for hits, for every server in JavaScript',
  memory: 'Calls a second of hits in memory',
  redis: 'Calls a second of hits and misses over Redis',
  'origin-calls': 'Origin calls in every scenario',
  latency: 'p99 of the latency in every scenario',
  processes: 'Origin calls by number of processes',
  waiters: 'Time until all callers have the value, by number of callers',
}

function intro(results: Results): string {
  const { seconds, redisVersion, command, date, commit, node, machine, loadBefore: load } = results
  const redis = redisVersion === undefined ? '' : `, Redis ${redisVersion}`
  return `# Benchmarks

Written by \`${command}\` on ${date} at ${commit}: Node ${node}${redis}, ${machine}.
The run took ${Math.round(seconds)} s.
${isWhole(results) ? EVERY_FIGURE : A_PART} ${rawResultsOf('benchmarks')}

- **Compare the ratios.** Absolute figures depend on the machine, whose cores the server, the load and Redis share.
  ${otherWork(load)}
- **Rounds are interleaved.** Each round measures every server or cache once. A figure is the median of its rounds, and
  the spread is the lowest and the highest. A ratio is taken within each round, and its median is shown.
- **Hits are checked.** The run fails if a hit calls the origin, or if a response has another length. It also fails if a
  cache returns another value than the origin.
- **Separate processes.** Every server and every cache runs in a process of its own with \`NODE_ENV=production\`, and is
  warmed up first. Another process sends the load.
- **Set-up.** Every cache is set up as its documentation says, and for speed if the documentation says how. The
  [last section](#set-up) lists the options. To correct a set-up or to add a row, edit \`apps/bench/src/compare\`.
- **Failures.** What each cache does when Redis or the origin fails is on the page [Torture](torture.md).`
}

const EVERY_FIGURE = `It measured all caches side by side. Every figure comes from this run, except those of locks and idempotency, which have
runs of their own. The sentences and the targets were written before the run.`
const A_PART =
  '**A part of a run**, not for publishing. `npm run bench` without arguments writes docs/benchmarks.md.'

const otherWork = (load: number): string =>
  load < 1.5
    ? 'The machine had little other work before the run.'
    : `**The machine had other work**: its load was ${load.toFixed(1)} before the run. So the ratios are uncertain, too.`

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
  const list = found.map(listItem).join('\n')
  return `## Where Stampede is behind

Every median of this run in which another cache, or no cache at all, was better. A time is listed only if it differs by
more than a millisecond.

${list || '- Nothing.'}`
}

const HITS = `## What a hit costs

Each server sends the same 2.3 kB of JSON over 50 connections, with one request at a time on each connection.

- **CPU µs a request** is the CPU time of the server's process for one request, including garbage collection and
  compilation. CPU per request is the steadier measure. The rate also depends on the other work of the machine.
- **÷ floor** divides the rate by the rate of the floor. The floor is *ready bytes*: the framework writes a Buffer with
  as many header fields as a hit of Stampede has. The ratio is taken within each round, and its median is shown. It can
  differ from the ratio of the medians in the table, because the machine is faster in some rounds.
- **Load CPU µs** is the CPU time of the process that sends the requests. If it is as high as that of the server, the
  rate is limited by the load and not by the server.
- nginx and Varnish are not written in JavaScript. They show how much faster such a cache is.
- On Express, Stampede and apicache are mounted before the routes, as their READMEs show. So neither
  a hit nor a request for its floor is routed.`

const MEMORY = `## A hit in memory

\`getOrSet\`, or the same function of another cache, called inside the process: one caller, 1000 keys in turn, an object
of 2.3 kB. The first row is only an LRU map. Stampede returns the same frozen object to every caller. The other caches
return the same object, too (bentocache with \`serialize: false\`, cacheable with \`useClone: false\`). There one caller can
change it for all others.`

function redisSection(hits: Parameters<typeof callTable>[0], misses: typeof hits): string {
  return `## The Redis tier

50 callers, values of 2.3 kB, no memory tier. Hits go through 1000 keys in turn. Each miss is for a new key, and the
origin takes no time, so only the cost of the cache is measured. The first two rows are bare commands: they read a key,
and set it if it is missing. On a miss, Stampede takes a lease and commits under a fence, with two scripts. The other
caches write without a check, so nothing stops a stale write.

${plot('redis')}

Hits:

${callTable(hits)}

Misses:

${callTable(misses)}`
}

const OPEN = `## Fleets under load

Four processes of Express 5 share one Redis.

- **Open loop.** Requests arrive by a seeded Poisson process, the same for every cache. They do not wait for earlier
  responses.
- **Latency** counts from the moment at which a request was due. So a server that stalls is also charged for the
  requests that wait for it. The sender can be up to a millisecond late.
- Percentiles are over all rounds together. Origin calls are those of one round.
- A request without a response after 5 s has failed.`

function growthSection({ keys, pages, fleets, waiters, crowds }: Growth): string {
  return `## Growth

**Keys.** The memory tier alone. Memory is the heap and its buffers after a garbage collection. Hits go through all keys
in an order that defeats the caches of the processor. A value that is no longer in use may have to be parsed again.

${keysTable(keys)}

A response also has header fields. A response with a body of ${pages.bodyBytes} bytes took ${Math.round(pages.memoryBytes)} bytes (mean of ${pages.entries}).
The memory tier counted ${Math.round(pages.countedBytes)} bytes for it.

**Processes.** 25 callers in each process ask for one cold key. The origin takes 100 ms.

${plot('processes')}

${fleetTable(fleets)}

**Callers.** Many callers of \`getOrSet\` ask for one cold key in one process, with Redis as the store.

${plot('waiters')}

${waitersTable(waiters)}

**Clients.** The same over HTTP, with a connection per client, for Express with \`stampedeCache\` and for Express alone.

${crowdTable(crowds)}`
}

const OTHERS = `## Locks and idempotency

Locks have [a benchmark of their own](benchmarks-locks.md) (\`npm run bench:locks\`). Its page names its machine and
commit. It measured:

${lockTable()}

Idempotency keys are [compared case by case](idempotency-compared.md) (\`npm run bench:idempotency\`). The table counts
the cases that each library handles correctly:

${idempotencyTable()}`

const setUpSection = (): string => {
  const lines = setUps.map((each) => listItem(`${each.name}: ${each.setUp} (${versionsOf(each)})`))
  return `## Set-up\n\n${lines.join('\n')}`
}
