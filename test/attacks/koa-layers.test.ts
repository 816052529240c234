// A Koa layer in front of the cache, on entries that another process filled or another writer
// stored.
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { createStampede } from '@stampede/core'
import { withChecksum } from '@stampede/core/testing'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import type Koa from 'koa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'
import { ask } from '../harness/load.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

const require = createRequire(import.meta.url)
const BODY = { data: [1], note: 'é' }
const ENVELOPE = '{"data":{"data":[1],"note":"é"}}'

describe.each([
  ['Koa 2', require('koa2') as typeof Koa],
  ['Koa 3', require('koa') as typeof Koa],
])('a middleware that wraps Koa bodies in front of the cache on %s', (_, Application) => {
  let redis: RedisServer
  const closings: Array<() => unknown> = []
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(async () => {
    for (const close of closings.reverse()) await close()
    await redis.stop()
  })

  const newStampede = (prefix: string) => {
    const client = new Redis(redis.url)
    const stampede = createStampede({ store: redisStore(client, { prefix, ...PATIENT }) })
    closings.push(
      () => client.disconnect(),
      () => stampede.close(),
    )
    return stampede
  }

  async function serve(listener: RequestListener): Promise<string> {
    const app = await listen(listener)
    closings.push(() => app[Symbol.asyncDispose]())
    return `${app.url}/`
  }

  const options = { ttlMs: 60_000, key: () => 'page' }

  function enveloped(prefix: string): Promise<string> {
    const koa = new Application()
    koa.use(async (ctx, next) => {
      await next()
      ctx.body = { data: ctx.body }
    })
    koa.use(stampedeCache({ ...options, stampede: newStampede(prefix) }))
    koa.use((ctx) => {
      ctx.body = BODY
    })
    return serve(koa.callback())
  }

  it('wraps the parsed object that another process stored in Redis', async () => {
    const prefix = 'own'
    const [first, second] = [await enveloped(prefix), await enveloped(prefix)]
    expect((await ask(first)).body).toBe(ENVELOPE)
    const hit = await ask(second)
    expect([hit.body, hit.headers['cache-status']]).toEqual([
      ENVELOPE,
      expect.stringContaining('; hit'),
    ])
    expect((await ask(first)).body).toBe(ENVELOPE)
  })

  it('gets a Buffer from an entry that Express stored without a body kind', async () => {
    const prefix = 'express'
    const stampede = newStampede(prefix)
    const app = express()
      .use(expressCache({ ...options, stampede }))
      .use((_req, res) => void res.json(BODY))
    await ask(await serve(app))
    const hit = await ask(await enveloped(prefix))
    expect(JSON.parse(hit.body)).toEqual({
      data: { type: 'Buffer', data: [...Buffer.from(JSON.stringify(BODY))] },
    })
  })

  it('gets a Buffer, and no error, if the stored kind does not match the body', async () => {
    const prefix = 'forged'
    await ask(await enveloped(prefix))
    const admin = new Redis(redis.url)
    closings.push(() => admin.disconnect())
    const changed = await forge(admin, prefix, (frame) => {
      const at = frame.indexOf('{"data":[1]')
      frame.write('{"data"![1]', at)
    })
    expect(changed).toBe(1)
    const hit = await ask(await enveloped(prefix))
    expect([hit.status, hit.body.slice(0, 23)]).toEqual([200, '{"data":{"type":"Buffer'])
  })
})

/** Applies a change to the frame of every record, and corrects its checksum. */
async function forge(
  admin: Redis,
  prefix: string,
  change: (frame: Buffer) => void,
): Promise<number> {
  let changed = 0
  for (const key of await admin.keys(`*${prefix}*`)) {
    if ((await admin.type(key)) !== 'hash') continue
    for (const [field, value] of Object.entries(await admin.hgetallBuffer(key))) {
      if (!value.includes('{"data":[1]')) continue
      change(value)
      await admin.hset(key, field, withChecksum(value))
      changed += 1
    }
  }
  return changed
}
