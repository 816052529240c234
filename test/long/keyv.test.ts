// The public test suite of keyv, with the adapter of docs/migrate/value-caches.md on Redis.

import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import * as vitest from 'vitest'
import { installOnDemand } from '../../tools/on-demand.mjs'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { blocksOf } from '../snippets/blocks.ts'

const { afterAll, beforeAll, describe } = vitest
const ROOT = new URL('../../', import.meta.url)
const FOLDER = fileURLToPath(new URL('test/harness/sessions', ROOT))
const ADAPTER = new URL('.cache/keyv/adapter.ts', ROOT)

installOnDemand(FOLDER)
const suite = createRequire(`${FOLDER}/package.json`)
const load = (name: string) => import(pathToFileURL(suite.resolve(name)).href)

const page = blocksOf(ROOT, 'docs/migrate/value-caches.md')
const [adapter = ''] = page.flatMap(
  ({ code }) => /^class KeyvStore \{\n(?:[ ].*\n)*\}/m.exec(code) ?? [],
)
mkdirSync(new URL('.', ADAPTER), { recursive: true })
writeFileSync(ADAPTER, `export ${adapter}\n`)

let server: RedisServer
let redis: Redis
beforeAll(async () => {
  server = await startRedis()
  redis = new Redis(server.url, { lazyConnect: true })
  const stampede: Stampede = createStampede({ store: redisStore(redis, PATIENT) })
  // The page has it from an earlier program.
  Object.assign(globalThis, { stampede })
})
afterAll(async () => {
  await (globalThis as unknown as { stampede: Stampede }).stampede.close()
  redis.disconnect()
  await server.stop()
})

describe('the adapter for keyv', async () => {
  const [{ default: keyvTestSuite }, { default: Keyv }, { KeyvStore }] = await Promise.all([
    load('@keyv/test-suite'),
    load('keyv'),
    import(ADAPTER.href),
  ])
  keyvTestSuite(vitest, Keyv, () => new KeyvStore())
})
