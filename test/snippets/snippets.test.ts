// The TypeScript snippets of README and docs: each is compiled under `strict`, and run.

import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import Koa from 'koa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { installOnDemand } from '../../tools/on-demand.mjs'
import { HAS_POSTGRES, type PostgresServer, startPostgres } from '../harness/postgres.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { blocksOf, moduleOf } from './blocks.ts'
import { createDatabase, createSetting, globalsOf } from './setting.ts'

const ROOT = new URL('../../', import.meta.url)
const FOLDER = new URL('.cache/snippets/', ROOT)
const FOLDERS = ['docs/start', 'docs/guide', 'docs/recipes', 'docs/migrate']
const docs = FOLDERS.flatMap((folder) => {
  const path = new URL(`${folder}/`, ROOT)
  return existsSync(path) ? readdirSync(path).map((file) => `${folder}/${file}`) : []
})
const pages = ['README.md', 'packages/nest/README.md', ...docs]
  .filter((page) => page.endsWith('.md'))
  .map((page) => ({ page, blocks: blocksOf(ROOT, page) }))
const blocks = pages.flatMap((each) => each.blocks)

const fileOf = (name: string): string => `${name.replace(/[^\w]/g, '-')}.ts`
/** The packages that only snippets need. */
const ON_DEMAND = fileURLToPath(new URL('test/harness/sessions', ROOT))
/** Packages of snippets whose types are not installed. */
const UNTYPED = ['compression', 'cookie-session', 'express-session', 'on-headers']
const TYPES = {
  extends: '../../tsconfig.check.json',
  compilerOptions: {
    noUnusedLocals: false,
    noUnusedParameters: false,
    // As in apps of Nest.
    erasableSyntaxOnly: false,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  },
  include: ['*.ts'],
}

let redis: RedisServer
let postgres: PostgresServer | undefined
let db: Awaited<ReturnType<typeof createDatabase>>

beforeAll(async () => {
  redis = await startRedis()
  db = await createDatabase()
  if (HAS_POSTGRES) {
    postgres = await startPostgres()
    await postgres.query('create table orders (id serial primary key, item text)')
    process.env.DATABASE_URL = postgres.url
  }
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(FOLDER, { recursive: true })
  installOnDemand(ON_DEMAND)
  symlinkSync(`${ON_DEMAND}/node_modules`, new URL('node_modules', FOLDER), 'junction')
  const setting = await createSetting(redis.url, db)
  writeFileSync(new URL('globals.ts', FOLDER), globalsOf(setting.names))
  await setting.close()
  writeFileSync(
    new URL('untyped.d.ts', FOLDER),
    UNTYPED.map((name) => `declare module '${name}'\n`).join(''),
  )
  for (const block of blocks) writeFileSync(new URL(fileOf(block.name), FOLDER), moduleOf(block))
  writeFileSync(new URL('tsconfig.json', FOLDER), JSON.stringify(TYPES))
})

afterAll(async () => {
  await db?.close()
  await redis?.stop()
  await postgres?.stop()
})

/** Matches like those of Express, for handlers of Nest: `@Get(path)`, with our decorator below. */
function nestRoutesIn(code: string): [string, string, string, string][] {
  const [, prefix = ''] = /^@Controller\('([^']+)'\)/m.exec(code) ?? []
  const handlers = [...code.matchAll(/^ {2}@(Get|Post)\((?:'([^']+)')?\)\n {2}@.*$/gm)]
  return handlers.map(([lines, verb = '', path]) => {
    const route = ['', prefix, path].filter((part) => part !== undefined).join('/')
    return [lines, 'nest', verb.toLowerCase(), route]
  })
}

/**
 * Requests each route that a snippet declares, twice. A cached one is a hit then, and a repeat
 * of a POST is a replay.
 */
async function requestRoutes(
  code: string,
  { names, servers }: Awaited<ReturnType<typeof createSetting>>,
): Promise<void> {
  const routes = [
    ...code.matchAll(/^(app|router)\.(get|post|put|use)\('(\/[^']*)'.*$/gm),
    ...nestRoutesIn(code),
  ]
  if (servers.length === 0 && /^app\./m.test(code)) names.serve(names.app.listen(0))
  if (servers.length === 0 && /^router\./m.test(code))
    names.serve(new Koa().use(names.router.routes()).listen(0))
  for (const server of servers) {
    for (const [line, , verb = '', route = ''] of routes) {
      if (verb === 'use') continue
      const path = route.replace(/:\w+/g, '7')
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
      const headers = { 'content-type': 'application/json', 'idempotency-key': randomUUID() }
      // A route of Fastify with this constraint is chosen by the field.
      const [, version] = /version: '([^']+)'/.exec(line) ?? []
      const chosen: Record<string, string> = version ? { 'accept-version': version } : {}
      const ask = async () => {
        const response = await fetch(
          url,
          verb === 'get'
            ? { headers: chosen }
            : { method: verb.toUpperCase(), headers: { ...headers, ...chosen }, body: '{}' },
        )
        return { status: response.status, fields: response.headers, body: await response.text() }
      }
      const first = await ask()
      const second = await ask()
      expect.soft(first.status, line).toBeLessThan(400)
      expect.soft(second.body, line).toBe(first.body)
      if (verb === 'get' && /stampedeCache/i.test(code))
        // A client may have the whole response before its commit has ended.
        expect.soft(second.fields.get('cache-status'), line).toMatch(/hit|collapsed/)
      if (/idempotency\(|@Idempotent\(/.test(line))
        expect.soft(second.fields.get('idempotency-replayed'), line).toBe('true')
    }
  }
}

describe('the snippets of README and docs', () => {
  it('compile', { timeout: 120_000 }, () => {
    expect(blocks.length).toBeGreaterThan(30)
    const tsc = fileURLToPath(new URL('node_modules/.bin/tsc', ROOT))
    const args = ['-p', fileURLToPath(FOLDER), '--pretty', 'false']
    let errors = ''
    try {
      execFileSync(tsc, args, { cwd: fileURLToPath(ROOT), encoding: 'utf8' })
    } catch (error) {
      errors = (error as { stdout: string }).stdout
    }
    expect(errors).toBe('')
  })
})

const run = pages.filter(
  ({ page, blocks }) => blocks.length > 0 && (HAS_POSTGRES || !page.endsWith('/postgres.md')),
)

describe.each(run)('$page', ({ blocks: snippets }) => {
  it.each(snippets)('runs its snippet $name', async ({ name, code }) => {
    const setting = await createSetting(redis.url, db)
    Object.assign(globalThis, setting.names)
    try {
      const module = await import(pathToFileURL(fileURLToPath(new URL(fileOf(name), FOLDER))).href)
      await module.default()
      await requestRoutes(code, setting)
    } finally {
      await setting.close()
    }
  })
})
