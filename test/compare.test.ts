// Checks docs/compare.md: each figure is that of the published results, of a default or of a
// criterion, and each table links to what shows its claims. A row is found by its first words.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readCacheOptions } from '../packages/core/src/cache/cache-options.ts'
import { CONFIRMED_FOR_MS } from '../packages/core/src/ports/store.ts'
import { readStampedeOptions } from '../packages/core/src/stampede-options.ts'
import { tableAfter } from '../tools/evidence.mjs'

const ROOT = new URL('..', import.meta.url)
const RESULTS = 'apps/bench/results'
const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, ROOT)), 'utf8')
const page = read('docs/compare.md')

interface Round {
  readonly cpuMicros: number
}
interface Row {
  readonly id?: string
  readonly subject?: { readonly id: string }
  readonly rounds: readonly Round[]
}
interface Open {
  readonly peer: string
  readonly scenario: string
  readonly p99: number
}
interface Verdict {
  readonly kind: string
  readonly detail?: string
  readonly fact?: string
  readonly seen?: string
  readonly figures?: readonly { readonly label: string; readonly value: number }[]
}
interface Peers {
  readonly peers: readonly { readonly id: string; readonly verdicts: Record<string, Verdict> }[]
}

const json = <T>(name: string): T => JSON.parse(read(`${RESULTS}/${name}.json`))
const benchmarks = json<Record<string, readonly Row[]> & { open: readonly Open[] }>('benchmarks')
const torture = json<Peers>('torture')
const responses = json<Peers>('responses-compared')
const { sizes } = json<{ sizes: readonly { name: string; packages: number; bytes: number }[] }>(
  'sizes',
)

function found<T>(all: readonly T[], isIt: (each: T) => boolean, what: string): T {
  const each = all.find(isIt)
  if (each === undefined) throw new Error(`no result ${what}`)
  return each
}

/** CPU time of a row of a benchmark, as the median of its rounds. */
function cpu(table: string, id: string): number {
  const rows = benchmarks[table] ?? []
  const { rounds } = found(rows, (row) => (row.id ?? row.subject?.id) === id, `${table} ${id}`)
  const all = rounds.map(({ cpuMicros }) => cpuMicros).sort((a, b) => a - b)
  return all[(all.length - 1) / 2] ?? Number.NaN
}
const micros = (table: string, id: string, digits = 0): string =>
  `${cpu(table, id).toFixed(digits)} µs`

const zipf = (peer: string): string => {
  const isIt = (row: Open) => row.scenario === 'zipf' && row.peer === peer
  return `${found(benchmarks.open, isIt, `zipf ${peer}`).p99.toFixed(0)} ms`
}

const verdict = ({ peers }: Peers, peer: string, id: string): Verdict => {
  const { verdicts } = found(peers, (each) => each.id === peer, peer)
  return verdicts[id] ?? { kind: 'none' }
}
const seen = (of: Peers, peer: string, id: string): string => {
  const { detail, fact, seen: text } = verdict(of, peer, id)
  return detail ?? fact ?? text ?? ''
}
const figure = (peer: string, id: string, label: string): number =>
  found(verdict(torture, peer, id).figures ?? [], (each) => each.label === label, label).value

/** `6 of 12`: passed cases of those that were tested. */
function passed({ peers }: Peers, peer: string): string {
  const kinds = Object.values(found(peers, ({ id }) => id === peer, peer).verdicts).map(
    ({ kind }) => kind,
  )
  const tested = kinds.filter((kind) => ['ok', 'fails', 'wrong'].includes(kind))
  return `${kinds.filter((kind) => kind === 'ok').length} of ${tested.length}`
}

/** A cell of the tables of locks and idempotency keys, whose runs have no raw results. */
function cell(name: string, anchor: string, row: string, column: number): string {
  const cells = tableAfter(`${RESULTS}/${name}.md`, anchor)
    .map((line) => line.split('|').map((each) => each.trim()))
    .find((each) => each.includes(row))
  return (cells?.[column] ?? `no row ${row}`).replaceAll('**', '').replace(' / ', ' of ')
}
const lock = (row: string, column: number) =>
  cell('benchmarks-locks', 'locks-compared', row, column)
const LOCKS = ['@stampede/locks', 'redlock 5.0.0-beta.2'] as const
const idempotencyPassed = (column: number) =>
  cell('idempotency-compared', 'idempotency-keys-compared', 'ok, of those tested', column)

const seconds = (ms: number, digits = 1): string => `${(ms / 1_000).toFixed(digits)} s`
const mib = (bytes: number): string => `${bytes / 1024 / 1024} MiB`
const size = (name: string): string[] => {
  const { packages, bytes } = found(sizes, (each) => each.name === name, name)
  const megabytes = `${(bytes / 1e6).toFixed(1)} MB`
  return [`${packages} packages`, megabytes, `${packages}, ${megabytes}`]
}
/** Texts of a page that was written by hand or by a run. */
function quoted(path: string, ...texts: readonly string[]): readonly string[] {
  const text = read(path)
  return texts.map((each) => (text.includes(each) ? each : `${each}, which ${path} does not say`))
}
const [, all, pass] =
  /^\| requirements, (\d+) \| (\d+) pass/m.exec(read('docs/evidence/conformance.md')) ?? []
const conformance = `${pass} of ${all}`
const COLD = 'time for a cold key'
const LATER = 'time until later callers have a value'
const NEW = 'time until the process has the new data'
const RESPONSE_CACHES = ['apicache', 'express-redis-cache', 'koa-cash']
const VALUE_CACHES = ['stampede', 'cache-manager', 'bentocache']

/** Figures of each row or item, by the words with which it begins. */
const FIGURES: Readonly<Record<string, readonly string[]>> = {
  '| 100 requests at once': ['stampede', ...RESPONSE_CACHES].map((peer) =>
    seen(responses, peer, 'burst'),
  ),
  '| two servers, cold page': ['stampede', ...RESPONSE_CACHES].map((peer) =>
    seen(responses, peer, 'fleet'),
  ),
  '| cases passed': ['stampede', ...RESPONSE_CACHES].map((peer) => passed(responses, peer)),
  '| memory and Redis together': [seconds(CONFIRMED_FOR_MS, 0)],
  '| limits of memory': [
    mib(readStampedeOptions({}).l1.maxBytes),
    mib(readCacheOptions().maxBodyBytes),
  ],
  '| Redis freezes (5)': [
    ...['stampede', 'stampede-koa'].map((peer) =>
      seconds(Number.parseInt(seen(responses, peer, 'redis-frozen'), 10)),
    ),
    seen(responses, 'express-redis-cache', 'redis-frozen'),
  ],
  '| CPU time of a hit in memory': [
    ...[micros('hits', 'express4'), micros('hits', 'koa')],
    ...[micros('hits', 'apicache'), micros('hits', 'koa-cash')],
    ...[micros('calls', 'stampede', 1), micros('calls', 'bentocache')],
  ],
  '| [public test suite': [conformance],
  '| many callers, one process': ['1 load'],
  '| cold key in four processes': VALUE_CACHES.map((peer) => {
    const loads = figure(peer, 'T5', 'loads')
    return `${loads} load${loads === 1 ? '' : 's'}`
  }),
  '| a purge that a process missed': [
    seconds(Math.ceil(figure('stampede', 'T6', NEW) / 1_000) * 1_000, 0),
    seconds(CONFIRMED_FOR_MS, 0),
    seconds(figure('bentocache', 'T6', NEW), 0),
  ],
  '| a load that hangs': [seconds(figure('stampede', 'T4', LATER), 0)],
  '| Redis freezes (T7)': ['stampede', 'bentocache']
    .map((peer) => seconds(figure(peer, 'T7', COLD)))
    .concat(seconds(figure('cache-manager', 'T7', COLD), 0)),
  '| CPU time of a hit in Redis': ['stampede', 'bentocache'].map((id) => micros('redisHits', id)),
  '| CPU time of a miss over Redis': ['stampede', 'bentocache'].map((id) =>
    micros('redisMisses', id),
  ),
  '| torture scenarios passed': VALUE_CACHES.map((peer) => passed(torture, peer)),
  '| [28 cases]': ['28 cases', idempotencyPassed(3), idempotencyPassed(4)],
  '| two duplicates at once': [
    ...['20 times', '1 run'],
    ...quoted(`${RESULTS}/idempotency-compared.md`, '2 runs', '10 of 20'),
  ],
  '| 200 waiters for one lock': LOCKS.flatMap((row) => [
    `${lock(row, 5)} ms`,
    `${lock(row, 6)} commands`,
  ]),
  '| locks without contention': LOCKS.map((row) => `${lock(row, 2)} per second`),
  '| Stampede for Express with Redis': size('stampede express redis'),
  '| `@stampede/core` alone': size('stampede core'),
  '| Stampede locks with Redis': size('stampede locks redis'),
  '| apicache | 1': size('apicache'),
  '| express-redis-cache | 1': size('express-redis-cache'),
  '| koa-cash | 5': size('koa-cash'),
  '| cache-manager with': size('cache-manager'),
  '| bentocache with': size('bentocache'),
  '| redlock 5 with': size('redlock'),
  '| redlock 4': size('redlock 4'),
  '| express-idempotency | 1': size('express-idempotency'),
  '- **Speed of a hit in memory': [
    micros('calls', 'layered-loader', 1),
    micros('calls', 'stampede', 1),
  ],
  '- **Latency under load': [zipf('stampede'), zipf('layered-loader')],
  '- **Cost of Redis': [
    ...['stampede', 'async-cache-dedupe'].map((id) => micros('redisMisses', id)),
    ...['stampede', 'async-cache-dedupe'].map((id) => micros('redisHits', id)),
  ],
  '- **Size': [...size('stampede express redis'), ...size('apicache')],
}

const SHOWN =
  /\d+, \d+\.\d MB|\d+(?:\.\d+)? (?:µs|ms|s|%|runs?|loads?|commands|per second|cases|packages|times|MB|MiB)(?!\w)|(?<![\d.])\d+ of \d+(?!\d)/g

/** Rows of tables, and items of lists with all their lines; links without their targets. */
const lines = page
  .replace(/\]\([^)]*\)/g, ']')
  .replace(/\n {2}(?=\S)/g, ' ')
  .split('\n')
const plain = (line: string): string => line.replace(/[[\]*]/g, '')
const ruleOf = (line: string): readonly string[] | undefined =>
  Object.entries(FIGURES).find(([begin]) => plain(line).startsWith(plain(begin)))?.[1]

describe('docs/compare.md', () => {
  it('has no figure but those of the results, of defaults and of criteria', () => {
    const wrong = lines.flatMap((line) => {
      const known = (ruleOf(line) ?? []).flatMap((text) => [text, ...(text.match(SHOWN) ?? [])])
      const figures = plain(line).match(SHOWN) ?? []
      return figures
        .filter((each) => !known.includes(each))
        .map((each) => `${each} in ${line.slice(0, 60)}; known: ${known.join(', ')}`)
    })
    expect(wrong).toEqual([])
    expect(lines.filter(ruleOf).length).toBeGreaterThan(20)
  })

  it('says that koa-cash needs a little less CPU time only if so', () => {
    expect(cpu('hits', 'koa-cash') / cpu('hits', 'koa')).toBeCloseTo(0.95, 1)
  })

  it('links each table of claims to tests, results, guides or sources', () => {
    for (const table of page.match(/(?:^\|.*\n)+/gm) ?? []) {
      if (/^\| (?:You want|\| version)/.test(table)) continue
      expect(table, table.slice(0, 200)).toMatch(
        /\]\((?:\.\.\/|guide|evidence|promises|https:\/\/github\.com)/,
      )
    }
  })
})
