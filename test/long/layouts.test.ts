// Rolling deploys to another layout of records and messages: processes of both layouts run side by
// side on one Redis.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AppFleet, startAppFleet } from '../harness/app-fleet.ts'
import { type Answer, ask, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'

const script = (name: string) => new URL(`../harness/servers/${name}`, import.meta.url)
/** Members 0 and 1 run this build. Members 2 and 3 run the next one. */
const NEXT = {
  EDITS: JSON.stringify([
    ['/packages/redis/dist/protocol/keys.js', 'const LAYOUT = 4;', 'const LAYOUT = 5;'],
  ]),
  EDITED: '2,3',
}
const FRAMEWORKS = 'express,koa,koa,express'

const bodies = (answers: readonly Answer[]) => answers.map(({ body }) => body)

describe('processes of two record layouts on one Redis', () => {
  let fleet: AppFleet
  beforeAll(async () => {
    const env = {
      ...NEXT,
      APP: script('cached-app.mjs').href,
      CACHE: JSON.stringify({ ttlMs: 60_000, tags: ['pages'] }),
    }
    fleet = await startAppFleet(script('other-build.mjs'), { framework: FRAMEWORKS }, env)
  })
  afterAll(() => fleet?.[Symbol.asyncDispose]())

  const askAll = async (path: string) =>
    bodies(await Promise.all(fleet.urls(path).map((url) => ask(url))))
  const events = async () =>
    Promise.all(fleet.members.map((member) => member.ask<string[]>({ type: 'events' })))

  it('fill each key once per layout, and use nothing of the other layout', async () => {
    const { origin, redis } = fleet
    const gate = createGate()
    origin.answer('/page', { gate })
    const asked = burst(fleet.urls('/page'), 80)
    await origin.arrived('/page', 2)
    gate.open()
    const answers = bodies(await asked)
    const [mine, also, next, too] = [0, 1, 2, 3].map((member) => {
      return new Set(answers.filter((_, n) => n % 4 === member))
    })
    expect([mine?.size, next?.size]).toEqual([1, 1])
    expect([also, too]).toEqual([mine, next])
    expect(mine).not.toEqual(next)
    // A later request gets the entry of its own layout.
    expect(new Set(await askAll('/page'))).toEqual(new Set(['/page #1', '/page #2']))
    expect(origin.calls('/page')).toBe(2)

    const admin = new Redis(redis.url)
    const names = [...(await admin.keys('*')), ...((await admin.pubsub('CHANNELS')) as string[])]
    admin.disconnect()
    const layouts = names.map((name) => /^stampede:(\d):/.exec(name)?.[1])
    expect(new Set(layouts)).toEqual(new Set(['4', '5']))
  })

  it.each([
    ['a key', '/by-key', { key: '/by-key' }],
    ['a tag', '/by-tag', { tag: 'pages' }],
    ['everything', '/by-all', { all: true }],
  ])(
    'obey purges of their own layout of %s, and ignore those of the other',
    async (_, path, target) => {
      await askAll(path)
      await events()
      for (const purger of [0, 3]) {
        const before = await askAll(path)
        await fleet.member(purger).ask({ type: 'purge', target })
        const isOwn = (member: number) => member < 2 === purger < 2
        const isNew = async () => (await askAll(path)).map((body, i) => body !== before[i])
        await expect.poll(isNew, { interval: 10 }).toEqual([0, 1, 2, 3].map(isOwn))
      }
      expect(fleet.origin.calls(path)).toBe(4)
      const seen = (await events()).flat()
      for (const trouble of ['store.failed', 'bus.gap', 'fill.fenced', 'fill.failed']) {
        expect(seen).not.toContain(trouble)
      }
    },
  )
})

describe('processes of two frame versions on one Redis', () => {
  let fleet: AppFleet
  beforeAll(async () => {
    const env = {
      EDITS: JSON.stringify([
        ['/packages/core/dist/entry/frame.js', 'const VERSION = 3;', 'const VERSION = 4;'],
      ]),
      EDITED: '2,3',
      APP: script('cached-app.mjs').href,
      CACHE: JSON.stringify({ ttlMs: 60_000, staleWhileRevalidateMs: 60_000, tags: ['pages'] }),
    }
    fleet = await startAppFleet(script('other-build.mjs'), { framework: FRAMEWORKS }, env)
  })
  afterAll(() => fleet?.[Symbol.asyncDispose]())

  it('treat frames of the other version as misses, while purges reach both', async () => {
    const { origin } = fleet
    const answers: Answer[] = []
    for (let round = 0; round < 3; round++) {
      for (const url of fleet.urls('/page')) answers.push(await ask(url))
      answers.push(...(await burst(fleet.urls('/page'), 40)))
    }
    for (const { status, body } of answers) {
      expect([status, body]).toEqual([200, expect.stringMatching(/^\/page #\d+$/)])
    }
    // Each version fills once and keeps a copy in memory. The versions do not refill each other's
    // entries without end.
    expect(origin.calls('/page')).toBeLessThan(8)
    await fleet.member(0).ask({ type: 'purge', target: { tag: 'pages' } })
    const before = new Set(bodies(answers))
    for (const url of fleet.urls('/page')) {
      await expect.poll(async () => before.has((await ask(url)).body), { interval: 10 }).toBe(false)
    }
    const seen = (
      await Promise.all(fleet.members.map((member) => member.ask<string[]>({ type: 'events' })))
    ).flat()
    expect(seen).not.toContain('store.failed')
  })
})

it('an idempotency key runs again if only a process of another layout has completed it', async () => {
  const env = { ...NEXT, APP: script('idempotent-app.mjs').href, IDEMPOTENCY: '{}' }
  const options = { framework: 'express' }
  await using fleet = await startAppFleet(script('other-build.mjs'), { ...options, size: 4 }, env)
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k', 'x-user': 'ada' }
  const answers: Answer[] = []
  for (const url of fleet.urls('/orders')) {
    answers.push(await ask(url, { method: 'POST', headers, body: '{"amount":1}' }))
  }
  expect(bodies(answers)).toEqual(['/orders #1', '/orders #1', '/orders #2', '/orders #2'])
  const replayed = answers.map((answer) => answer.headers['idempotency-replayed'])
  expect(replayed).toEqual([undefined, 'true', undefined, 'true'])
})
