// The public names: each entry point of each package exports exactly these. A new name is a
// promise, so it is added here on purpose.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'

const DOORS: Readonly<Record<string, string>> = {
  '@stampede/core': `
    Attempt AttemptTransaction CacheOptions createStampede DataCache FactoryContext
    GetOrSetOptions IdempotencyOperator IdempotencyOptions MemoryStore memoryStore PurgeTarget
    Stampede StampedeError StampedeEvent StampedeOptions StampedeStats StampedeStore Stored
    strict TRACING_CHANNELS TracingContexts`,
  '@stampede/core/adapter': `
    CapturedHead createHttpCache createHttpIdempotency Exchange HeaderList
    IdempotentExchange OriginEnd OriginObserver OWN_FIELDS Reply
    warnOnce`,
  '@stampede/core/operator': `
    adviceOn inspectFrame namedKeys ratiosOf requestKey runtimeOf shownKey usageOf`,
  '@stampede/core/store': `
    ANY_FENCE Clock compressibleBody CONFIRMED_FOR_MS EventHub Grant groupOf
    IdempotencyStore LeaseKeeper LockStore lockTracing mayHaveRun newToken
    optionError readers readOptions REPORT_LIMITS show storeInUse StoreOperator storeUnavailable
    systemClock TransactionRunner withTimeBudget`,
  '@stampede/node-http': `
    idempotentFront isRevalidation stampedeFront`,
  '@stampede/node-http/adapter': `
    AttemptExchange AttemptWatch breakOff Capture createNodeCache createNodeIdempotency Departure
    editFields endWith exposeReply expressHost fieldsOf isSendable isWrapped MountOrder
    OuterFields rememberRawBody RequestExchange restoreFields SentHead setReply
    teeStream trustsPeer visitWeb watchCalls`,
  '@stampede/redis': `
    redisStore`,
  '@stampede/redis/operator': `
    names`,
  '@stampede/express': `
    idempotency isRevalidation Middleware rememberRawBody stampedeCache`,
  '@stampede/fastify': `
    idempotency isRevalidation Mountable rememberRawBody stampedeCache`,
  '@stampede/hono': `
    idempotency isRevalidation stampedeCache`,
  '@stampede/nest': `
    HttpRequest idempotency IdempotencyAttempt Idempotent isRevalidation rememberRawBody STAMPEDE
    StampedeCache stampedeCache StampedeModule`,
  '@stampede/koa': `
    idempotency isRevalidation rememberRawBody stampedeCache`,
  '@stampede/operate': `
    entryFacts isReported observe ProcessReport readReport reportedKey reportEveryMs variantParts`,
  '@stampede/dashboard': `
    stampedeDashboard stampedeDashboardKoa`,
  '@stampede/postgres': `
    fromDrizzle fromKnex fromKysely fromPostgresJs fromPrisma Migration migrations postgresStore
    PostgresStore`,
  '@stampede/locks': `
    createLocks createQuorumLocks fencedUpdate Lease LockError Locks LockStats`,
  '@stampede/otel': `
    instrumentStampede`,
  '@stampede/metrics': `
    stampedeMetrics`,
}

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), 'utf8')

describe.each(Object.entries(DOORS))('%s', (door, listed) => {
  const [, name = '', subpath = '.'] = /^@stampede\/([^/]+)(?:\/(.+))?$/.exec(door) ?? []
  const { exports } = JSON.parse(read(`packages/${name}/package.json`))
  const target = exports[subpath === '.' ? '.' : `./${subpath}`]
  const file = subpath === '.' ? 'index' : subpath

  it('exports exactly the listed names', () => {
    const source = read(`packages/${name}/src/${file}.ts`)
    const lists = [...source.matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].map(
      ([, list = '']) => list,
    )
    const names = lists.flatMap((list) =>
      list.split(',').map((each) => each.trim().replace(/^type /, '')),
    )
    expect(names.filter((each) => each !== '').sort()).toEqual(
      listed.split(/\s+/).filter(Boolean).sort(),
    )
    // Every export of the package is in such a list.
    expect(source.match(/^export (?!(type )?\{)/gm)).toBeNull()
  })

  it('has the same file for `import` and `require`', () => {
    expect(target).toEqual({
      import: { types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` },
      require: { types: `./dist/${file}.d.cts`, default: `./dist/${file}.cjs` },
    })
  })
})

interface Entry {
  readonly require?: { readonly default: string }
}

/** All entry points, with their files for `require`. */
const entries = readdirSync(new URL('../packages', import.meta.url)).flatMap((name) => {
  const { exports = {} } = JSON.parse(read(`packages/${name}/package.json`))
  return Object.entries<Entry>(exports).flatMap(([subpath, { require }]) =>
    require === undefined
      ? []
      : {
          name: `@stampede/${name}${subpath.slice(1)}`,
          cjs: `packages/${name}/${require.default}`,
        },
  )
})

describe('an entry point of an older toolchain', () => {
  // Jest before 27 takes `node:vm` for the name of a file.
  it.each(entries)('has no module name with the prefix `node:` for CommonJS: $name', ({ cjs }) => {
    expect(read(cjs)).not.toContain('node:')
  })

  it('has declarations that compile for ES2020, without skipLibCheck', () => {
    const text = entries.map(({ name }) => `import '${name}'`).join('\n')
    const target = ['--target', 'es2020', '--lib', 'es2020', '--skipLibCheck', 'false', '--noEmit']
    expect(errorsOf(text, target)).toEqual([])
  })
})

it('the types of returned values have public names, so that an app can export them', () => {
  const text = `
    import { createStampede, memoryStore } from '@stampede/core'
    import * as dashboard from '@stampede/dashboard'
    import * as express from '@stampede/express'
    import * as fastify from '@stampede/fastify'
    import * as hono from '@stampede/hono'
    import * as koa from '@stampede/koa'
    import { createLocks, createQuorumLocks } from '@stampede/locks'
    import { stampedeMetrics } from '@stampede/metrics'
    import * as nest from '@stampede/nest'
    import { stampedeFront } from '@stampede/node-http'
    import { postgresStore } from '@stampede/postgres'
    import { Pool } from 'pg'
    import { instrumentStampede } from '@stampede/otel'
    import { redisStore } from '@stampede/redis'
    import { Redis } from 'ioredis'
    export const store = redisStore(new Redis())
    export const memory = memoryStore()
    export const postgres = postgresStore(new Pool())
    export const migrated = postgres.migrate()
    export const stampede = createStampede({ store })
    export const stats = () => stampede.stats()
    export const { idempotency } = stampede
    export const data = stampede.cache('prices', { ttlMs: 1 })
    export const price = data.getOrSet('a', async () => ({ cents: 1 }))
    const scope = () => 'a'
    const options = { stampede, authorize: 'insecure-local' } as const
    export const mounts = [
      ...[express.stampedeCache(), express.idempotency({ scope })],
      ...[fastify.stampedeCache(), fastify.idempotency({ scope })],
      ...[hono.stampedeCache(), hono.idempotency({ scope })],
      ...[koa.stampedeCache(), koa.idempotency({ scope })],
      ...[nest.stampedeCache(), nest.idempotency({ scope })],
      ...[nest.StampedeCache(), nest.Idempotent({ scope })],
      ...[dashboard.stampedeDashboard(options), dashboard.stampedeDashboardKoa(options)],
      stampedeFront(() => {}, {}),
    ] as const
    export const locks = createLocks({ store })
    export const lease = locks.acquire('a')
    export const lockStats = () => locks.stats()
    export const released = async () => (await lease).release()
    export const quorum = createQuorumLocks([store])
    export const quorumLease = quorum.acquire('a')
    export const metrics = stampedeMetrics({ stampede, locks })
    export const stop = instrumentStampede()`
  const target = ['--target', 'es2022', '--skipLibCheck', '--declaration', '--emitDeclarationOnly']
  expect(errorsOf(text, target)).toEqual([])
})

/** The errors that TypeScript finds in a module of an app. */
function errorsOf(text: string, options: readonly string[]): string[] {
  // In the repository, because TypeScript looks for the packages from here. Git ignores the folder,
  // so tests that list the files of the project do not see it.
  const cache = fileURLToPath(new URL('../.cache/', import.meta.url))
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'app-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'all.mts')
  writeFileSync(file, text)
  const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url))
  const common = ['--module', 'nodenext', '--strict', '--types', 'node', '--ignoreConfig']
  const args = [tsc, ...options, ...common, '--pretty', 'false', file]
  const { stdout, status } = spawnSync('node', args, { encoding: 'utf8' })
  const errors = stdout.split('\n').filter((line) => line.includes('error TS'))
  // Other packages have errors of their own.
  expect(status === 0 || errors.length > 0).toBe(true)
  return errors.filter(
    (line) => !/node_modules\/(?!@stampede)/.test(line.split(': error')[0] ?? ''),
  )
}

it('all entry points together have at most 150 public names', () => {
  const names = Object.values(DOORS).flatMap((listed) => listed.split(/\s+/).filter(Boolean))
  expect(names.length).toBeLessThanOrEqual(150)
})

it('the list of entry points is complete', () => {
  const names =
    'core node-http redis express koa fastify hono nest locks metrics otel operate dashboard postgres'
  for (const name of names.split(' ')) {
    const subpaths = Object.keys(JSON.parse(read(`packages/${name}/package.json`)).exports)
    const doors = subpaths.map((subpath) => `@stampede/${name}${subpath.slice(1)}`)
    const ours = Object.keys(DOORS).filter((door) => `${door}/`.startsWith(`@stampede/${name}/`))
    const isOther = /^@stampede\/(core\/testing|[\w-]+\/package\.json)$/
    // Test doubles are not public.
    expect(doors.filter((door) => !isOther.test(door)).sort()).toEqual(ours.sort())
  }
})
