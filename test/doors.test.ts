// The public names: each entry point of each package exports exactly these. A new name is a
// promise, so it is added here on purpose.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'

const DOORS: Readonly<Record<string, string>> = {
  '@stampede/core': `
    Attempt CacheOptions createStampede DataCache DataCacheOptions ERROR_CODES EVENT_CHANNEL
    EventOf EVENTS Factory FactoryContext GetOrSetOptions GivenAnswer IdempotencyOperator
    IdempotencyOptions IdempotencyOutcome IdempotencyRecord IdempotentOptions memoryStore
    MemoryStore PurgeOptions PurgeTarget RouteStats Serializer StaleReason Stampede
    StampedeError StampedeErrorCode StampedeEvent StampedeEventType StampedeOptions
    StampedeStats StampedeStore StampedeWarningCode Stored strict TRACING_CHANNELS
    TracingContexts WARNING_CODES`,
  '@stampede/core/adapter': `
    AttemptEnd AttemptObserver BodyKind CapturedHead createHttpCache
    createHttpIdempotency Exchange HeadDecision HeaderList HeadWatch HttpCache
    HttpIdempotency IdempotentExchange InnerCache Natives
    OnInner optionError OriginEnd OriginObserver OWN_FIELD OWN_FIELDS PartOfBody ReadLog
    ReadyReply Reply RequestBody RequestView responseError toHeaders warnOnce`,
  '@stampede/core/operator': `
    AskedRequest decodeFrame kindOf namedKeys patternNote requestKey RequestKeys Runtime runtimeOf
    shownKey SubjectKind variantParts`,
  '@stampede/core/store': `
    ANY_FENCE BeginReply BeginRequest choice Clock CommitReply checkListener CONFIRMED_FOR_MS contextOf driftMs durationMs Emitted EventHub Failure flag
    Fingerprints Finish FinishReply Grant groupOf Hold IdempotencyHooks IdempotencyStore
    Inspection LeaseKeeper Lifetimes LockHooks LockInfo LockRelease LockReply LockRequest
    LockStore LockTrace lockTracing LONGEST_REPORT LONGEST_REPORT_MS LookupReply LookupRequest Mark mayHaveRun
    newToken number optionError Position Reader readOptions RecordInfo RecordKind
    ScanPage Settlement SettleReply SharedFailure show StampedeStore StoredFrame StoreHooks StoreInfo
    StoreOperator storeInUse storeUnavailable systemClock Timer trace unchecked unknownReply`,
  '@stampede/node-http': `
    isRevalidation Listener stampedeFront`,
  '@stampede/node-http/adapter': `
    addAtHead ANSWER_WITHIN_MS applyFields AttemptWatch BodyCut Capture correctStored
    createNodeCache createNodeIdempotency cutStream
      discardRequestBody Dispatch editWriteHead enterOrigin exposeFields expressHost fieldsOf forbidTransform
    framedHeaders hasBody hasLeft hasRepeats
    hideConditionals IdempotentVisit isInsideOrigin isSendable isTakenOn isWrapped linesOf
    Layer missingDate MountOrder NodeFramework NodeVisit
    nodesWriteHead OuterFields ParsedRequest readRequest
    readRequestBody Reads RequestExchange RequestVisit rememberRawBody replyOf RequestAddress
    restoreFields setsCookie takeRevalidation
    teeStream trustsPeer unsendable watchCalls watchHead watchReads watchReply
    readForm readWebBody serverOf visitWeb WebRequest WebVisit`,
  '@stampede/redis': `
    RedisClient redisStore RedisStoreOptions`,
  '@stampede/redis/operator': `
    Names names`,
  '@stampede/express': `
    Attempt CacheOptions idempotency IdempotencyOptions isRevalidation Middleware
    rememberRawBody stampedeCache strict`,
  '@stampede/fastify': `
    Attempt CacheOptions idempotency IdempotencyOptions isRevalidation Mountable
    rememberRawBody stampedeCache strict`,
  '@stampede/hono': `
    Attempt CacheOptions idempotency IdempotencyOptions isRevalidation stampedeCache strict`,
  '@stampede/nest': `
    Attempt CacheOptions HttpRequest idempotency IdempotencyAttempt IdempotencyOptions Idempotent
    InjectStampede InterceptorClass isRevalidation NestDecorator rememberRawBody STAMPEDE
    StampedeAsyncOptions StampedeCache stampedeCache StampedeModule StampedeModuleOptions strict`,
  '@stampede/koa': `
    Attempt CacheOptions idempotency IdempotencyOptions isRevalidation rememberRawBody
    stampedeCache strict`,
  '@stampede/operate': `
    entryFacts EntryFacts isReported LastFill observe Observer ObserverOptions ProcessReport
    PurgeView ratiosOf readReport ReportAdditions ReportedEvent ReportedFlight ReportedId ReportedKey
    reportedKey ReportedLock ReportedStats ReportedStore reportEveryMs runsOn Usage`,
  '@stampede/dashboard': `
    Authorize DashboardHandler DashboardOptions KoaContext KoaDashboard LockEventView
    stampedeDashboard stampedeDashboardKoa WatchedLocks`,
  '@stampede/locks': `
    AcquireOptions createLocks createQuorumLocks FencedUpdate
    fencedUpdate Lease LOCK_EVENTS LockError LockErrorCode LockEvent LockEventType Locks LocksOptions LockStats QuorumLease QuorumLocks
    QuorumOptions Released`,
  '@stampede/otel': `
    instrumentStampede StampedeInstrumentation`,
  '@stampede/metrics': `
    LockStats MetricsOptions StampedeMetrics stampedeMetrics`,
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
    // In the repository, because TypeScript looks for the packages from here.
    const folder = mkdtempSync(fileURLToPath(new URL('es2020-', import.meta.url)))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'all.mts')
    writeFileSync(file, entries.map(({ name }) => `import '${name}'`).join('\n'))
    const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url))
    const target = ['--target', 'es2020', '--lib', 'es2020', '--module', 'nodenext']
    const strict = ['--strict', '--skipLibCheck', 'false', '--types', 'node', '--ignoreConfig']
    const args = [tsc, '--noEmit', ...target, ...strict, '--pretty', 'false', file]
    const { stdout, status } = spawnSync('node', args, { encoding: 'utf8' })
    const errors = stdout.split('\n').filter((line) => line.includes('error TS'))
    // Other packages have errors of their own.
    expect(status === 0 || errors.length > 0).toBe(true)
    expect(errors.filter((line) => !/node_modules\/(?!@stampede)/.test(line))).toEqual([])
  })
})

it('the list of entry points is complete', () => {
  const names =
    'core node-http redis express koa fastify hono nest locks metrics otel operate dashboard'
  for (const name of names.split(' ')) {
    const subpaths = Object.keys(JSON.parse(read(`packages/${name}/package.json`)).exports)
    const doors = subpaths.map((subpath) => `@stampede/${name}${subpath.slice(1)}`)
    const ours = Object.keys(DOORS).filter((door) => `${door}/`.startsWith(`@stampede/${name}/`))
    const isOther = /^@stampede\/(core\/testing|[\w-]+\/package\.json)$/
    // Test doubles are not public.
    expect(doors.filter((door) => !isOther.test(door)).sort()).toEqual(ours.sort())
  }
})
