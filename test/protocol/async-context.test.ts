// Replies of Redis come in the async context of any request. Each factory still runs in that of its
// own call, because it may take a tenant, a user or a transaction from it.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createStampede, type Stampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const tenants = new AsyncLocalStorage<string>()
const NAMES = ['a', 'b', 'c']
const OPTIONS = { ttlMs: 60_000, staleWhileRevalidateMs: 60_000, jitter: 0 }

let stampede: Stampede
beforeEach(async () => {
  await admin.flushall()
  const store = redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT)
  stampede = createStampede({ store })
})
afterEach(() => stampede.close())

const ask = () =>
  Promise.all(
    NAMES.map((name) =>
      tenants.run(name, () =>
        stampede.getOrSet(name, async () => tenants.getStore() ?? 'none', OPTIONS),
      ),
    ),
  )

describe('calls of getOrSet in one turn', () => {
  it('run their factories in their own async contexts while the store connects', async () => {
    expect(await ask()).toEqual(NAMES)
  })

  it('run their factories in their own async contexts over a used connection', async () => {
    await stampede.getOrSet('first', () => 1, OPTIONS)
    expect(await ask()).toEqual(NAMES)
  })

  it('refresh stale values in their own async contexts', async () => {
    await ask()
    await expect.poll(() => stampede.stats().fills.committed).toBe(3)
    const refreshed = NAMES.map((name) => `refreshed by ${name}`)
    for (const key of NAMES) await stampede.purge({ key }, { soft: true })
    const again = NAMES.map((name) =>
      tenants.run(`refreshed by ${name}`, () =>
        stampede.getOrSet(name, async () => tenants.getStore() ?? 'none', OPTIONS),
      ),
    )
    expect(await Promise.all(again)).toEqual(NAMES)
    await expect.poll(ask).toEqual(refreshed)
  })
})

describe('events of fills over Redis', () => {
  const TYPES = ['lease.granted', 'fill.started', 'fill.committed'] as const
  const ofEach = TYPES.flatMap((type) => NAMES.map((name) => `${type} ${name} in ${name}`))

  /** The events, with the end of their key and their async context. */
  function heard(): string[] {
    const events: string[] = []
    for (const type of TYPES) {
      stampede.on(type, ({ key }) => {
        events.push(`${type} ${key.at(-1)} in ${tenants.getStore()}`)
      })
    }
    return events
  }

  it('are emitted in the async contexts of the calls that run the factories', async () => {
    const events = heard()
    await ask()
    await expect.poll(() => events.length).toBe(ofEach.length)
    expect(events.toSorted()).toEqual(ofEach.toSorted())
  })

  it('are emitted in the async contexts of the requests that run the handlers', async () => {
    const events = heard()
    const turn: Array<() => void> = []
    const app = express()
    app.use((req, _res, next) => {
      turn.push(() => tenants.run(req.path.slice(1), next))
      if (turn.length === NAMES.length) for (const enter of turn) enter()
    })
    app.get('/:name', stampedeCache({ stampede, ttlMs: 60_000 }), (_req, res) => {
      res.send(tenants.getStore())
    })
    await using running = await listen(app)
    const bodies = NAMES.map(async (name) => (await fetch(`${running.url}/${name}`)).text())
    expect(await Promise.all(bodies)).toEqual(NAMES)
    await expect.poll(() => events.length).toBe(ofEach.length)
    expect(events.toSorted()).toEqual(ofEach.toSorted())
  })
})
