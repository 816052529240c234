// Process warnings about set-ups that do not do what their author expects. Each set-up runs in a
// process of its own, because a process emits each warning once.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../harness/redis-server.ts'

const SET_UPS = fileURLToPath(new URL('warnings/set-ups.mjs', import.meta.url))
const run = promisify(execFile)

interface Warning {
  readonly setUp: string
  readonly name?: string
  readonly code?: string
  readonly message: string
}

const outputOf = async (env: NodeJS.ProcessEnv, setUps: readonly string[]): Promise<unknown> => {
  const { stdout } = await run(process.execPath, [SET_UPS, ...setUps], {
    env: { ...process.env, NODE_ENV: 'production', ...env },
  })
  return JSON.parse(stdout)
}
const warningsOf = async (env: NodeJS.ProcessEnv, ...setUps: string[]) =>
  (await outputOf(env, setUps)) as Warning[]

const names = (await outputOf({}, [])) as string[]

/** The text begins with the cause, and ends with the fix. */
function expectWarning(
  warning: Warning | undefined,
  setUp: string,
  code: string,
  [cause, fix]: readonly [cause: string, fix: string],
): void {
  expect(warning).toEqual({ setUp, name: 'StampedeWarning', code, message: expect.any(String) })
  const { message = '' } = warning ?? {}
  expect(message.slice(0, cause.length)).toBe(cause)
  expect(message.slice(-fix.length)).toBe(fix)
}

const ORDER = 'STAMPEDE_MOUNT_ORDER'
const orderOf = (name: string) =>
  [
    `${name}() is mounted after the routes, so it sees none of their requests`,
    `Mount it before them: app.use(${name}(...)), then the routes.`,
  ] as const
const SEPARATE = [
  'two stampedeCache() of one app have separate caches, because one has no option stampede',
  'pass it to each: stampedeCache({ stampede, ttlMs: 10_000 }).',
] as const

describe.each(['Express 4', 'Express 5', 'Koa 2', 'Koa 3'])('on %s', (framework) => {
  it('each warning is emitted once, with its cause and its fix', async () => {
    const [cache, keys, two] = [
      `${framework}: the cache after the routes`,
      `${framework}: idempotency after the routes`,
      `${framework}: two caches of one app`,
    ] as const
    const warnings = await warningsOf({}, cache, keys, two, cache, keys, two)
    expect(warnings).toHaveLength(3)
    expectWarning(warnings[0], cache, ORDER, orderOf('stampedeCache'))
    expectWarning(warnings[1], keys, ORDER, orderOf('idempotency'))
    expectWarning(warnings[2], two, 'STAMPEDE_SEPARATE_CACHES', SEPARATE)
  })

  it('a cache that is mounted too late causes a warning even if a 404 handler follows', async () => {
    const setUp = `${framework}: the cache after the routes, before a 404 handler`
    const warnings = await warningsOf({}, setUp)
    expect(warnings).toHaveLength(1)
    expectWarning(warnings[0], setUp, ORDER, orderOf('stampedeCache'))
  })

  it('ordinary apps emit no warning', async () => {
    const quiet = names.filter((name) => name.startsWith(`quiet, ${framework}`))
    expect(quiet.length).toBeGreaterThan(4)
    // These apps have many Stampedes, as the cases of a test file have.
    expect(await warningsOf({ NODE_ENV: 'test' }, ...quiet)).toEqual([])
  })

  it('a middleware that is mounted without being called fails the first request', async () => {
    const [cache, keys] = await warningsOf({}, `${framework}: not called`)
    const problem = /received an object \(\w+\); it is mounted without being called; mount /.source
    expect(cache?.message).toMatch(
      new RegExp(`^stampedeCache: ${problem}stampedeCache\\(\\{ ttlMs: 10_000`),
    )
    expect(keys?.message).toMatch(new RegExp(`^idempotency: ${problem}idempotency\\(\\{ scope: `))
  })
})

describe.each(['Express 4', 'Express 5'])('on %s, in a router or a mounted app', (framework) => {
  it('each warning is emitted', async () => {
    const [router, mounted] = [
      `${framework}: the cache after a router with the routes`,
      `${framework}: two caches, one in a mounted app`,
    ] as const
    const warnings = await warningsOf({}, router, mounted)
    expectWarning(warnings[0], router, ORDER, orderOf('stampedeCache'))
    expectWarning(warnings[1], mounted, 'STAMPEDE_SEPARATE_CACHES', SEPARATE)
  })
})

describe('a process', () => {
  it('warns of more than ten open Stampedes', async () => {
    const setUp = 'a Stampede for each request'
    const warnings = await warningsOf({}, setUp)
    expect(warnings.map(({ code }) => code)).toEqual(['STAMPEDE_SEPARATE_CACHES', 'STAMPEDE_MANY'])
    expectWarning(warnings[1], setUp, 'STAMPEDE_MANY', [
      'more than 10 Stampedes are open in this process',
      'Close those you no longer use.',
    ])
    const inTests = await warningsOf({ NODE_ENV: 'test' }, setUp)
    expect(inTests.map(({ code }) => code)).toEqual(['STAMPEDE_SEPARATE_CACHES'])
  })

  it('warns once of records in its memory if it is a worker of node:cluster', async () => {
    const setUp = 'records in the memory of a worker'
    expectProcessMemory(await warningsOf({}, setUp), setUp, 'this process is a worker of node:cl')
  })

  it.each([
    ['PM2 runs several instances (NODE_APP_INSTANCE is 1)', { NODE_APP_INSTANCE: '1' }],
    ['PM2 runs 2 instances', { NODE_APP_INSTANCE: '0', pm_id: '0', instances: '2' }],
  ])('warns once of records in its memory if %s', async (sign, env) => {
    const setUp = 'records in memory'
    expectProcessMemory(await warningsOf(env, setUp), setUp, sign)
  })

  it.each([
    ['it is the only one', {}],
    ['it is the only instance of PM2', { NODE_APP_INSTANCE: '0', pm_id: '3', instances: '1' }],
    ['it runs tests', { NODE_ENV: 'test', VITEST_POOL_ID: '2', JEST_WORKER_ID: '2' }],
  ])('emits no warning for records in its memory if %s', async (_, env) => {
    expect(await warningsOf(env, 'records in memory')).toEqual([])
  })

  it('emits no warning as a worker with Redis or with a cache only', async () => {
    await using redis = await startRedis()
    const quiet = names.filter((name) => name.startsWith('quiet: '))
    for (const setUp of quiet) {
      expect(await warningsOf({ TEST_REDIS_URL: redis.url }, setUp), setUp).toEqual([])
    }
  })
})

function expectProcessMemory(warnings: readonly Warning[], setUp: string, sign: string): void {
  expect(warnings).toHaveLength(2)
  for (const [i, what, call] of [
    [0, 'idempotency keys', 'createStampede'],
    [1, 'locks', 'createLocks'],
  ] as const) {
    const cause = `${what} are in the memory of this process, but ${sign}`
    const fix = `${call}({ store: redisStore(redis) }).`
    expectWarning(warnings[i], setUp, 'STAMPEDE_PROCESS_MEMORY', [cause, fix])
  }
}
