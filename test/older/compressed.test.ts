// Fleets in which some processes compress entries in Redis, and some run a build without it.

import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { startAppFleet } from '../harness/app-fleet.ts'
import { ask, burst } from '../harness/load.ts'
import { PATIENT } from '../harness/patient.ts'

interface Stats {
  readonly store: { readonly bytesRaw: number; readonly bytesStored: number }
}

const script = (name: string) => new URL(`../harness/servers/${name}`, import.meta.url)
const PLAIN = PATIENT
const COMPRESSED = { ...PATIENT, compress: true }
/** Not so long that the thread pool compresses it, which a busy machine may not do in time. */
const LONG = '<p>stampede</p>'.repeat(1_000)
/** The thread pool compresses it. */
const LONGER = LONG.repeat(9)

/** `EDITS`: changed text in the members of `EDITED`, see other-build.mjs. */
function startFleet(stores: readonly object[], env: Readonly<Record<string, string>> = {}) {
  const options = { size: stores.length, framework: 'express' }
  return startAppFleet(script('other-build.mjs'), options, {
    EDITED: '-',
    ...env,
    APP: script('cached-app.mjs').href,
    CACHE: JSON.stringify({ ttlMs: 60_000, leaseMs: 5_000, waitMs: 60_000 }),
    // Without memory, so that each request reads Redis.
    STAMPEDE: JSON.stringify({ l1: { maxBytes: 0 } }),
    STORE: JSON.stringify(stores),
  })
}

describe('processes with and without compress', () => {
  it('read the entries of each other, and call the origin once for each page', async () => {
    await using fleet = await startFleet([COMPRESSED, PLAIN, COMPRESSED, PLAIN])
    const { origin } = fleet
    for (const page of ['/a', '/b', '/c', '/d']) {
      origin.answer(page, ({ number }) => ({ body: `${page} #${number} ${LONG}` }))
      // Each process is the first one for one page.
      const first = 'abcd'.indexOf(page.slice(1))
      await ask(fleet.urls(page)[first] ?? '')
      const answers = await burst(fleet.urls(page), 40)
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([`${page} #1 ${LONG}`]))
      expect(origin.calls(page)).toBe(1)
    }
    const stats = await Promise.all(
      fleet.members.map((member) => member.ask<Stats>({ type: 'stats' })),
    )
    const isSmaller = stats.map(({ store }) => store.bytesStored < store.bytesRaw / 10)
    expect(isSmaller).toEqual([true, false, true, false])
    expect(stats.map(({ store }) => store.bytesRaw > LONG.length)).toEqual(Array(4).fill(true))
  })

  it('share one run of a page for which the others wait', async () => {
    await using fleet = await startFleet([COMPRESSED, PLAIN])
    fleet.origin.answer('/page', ({ number }) => ({ body: `#${number} ${LONG}`, delayMs: 200 }))
    const answers = await burst(fleet.urls('/page'), 60)
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([`#1 ${LONG}`]))
    expect(fleet.origin.calls('/page')).toBe(1)
  })
})

it('a process of the previous version never serves a compressed entry', async () => {
  // The previous version knows no version of frames except 3.
  const file = '/packages/core/dist/entry/frame.js'
  await using fleet = await startFleet([COMPRESSED, PLAIN], {
    EDITS: JSON.stringify([[file, 'const CODED_VERSION = 4;', 'const CODED_VERSION = 0;']]),
    EDITED: '1',
  })
  fleet.origin.answer('/page', ({ number }) => ({ body: `#${number} ${LONG}` }))
  for (let round = 0; round < 20; round++) {
    for (const url of fleet.urls('/page')) {
      const { status, body } = await ask(url)
      expect([status, body.replace(/^#\d+ /, '')]).toEqual([200, LONG])
    }
  }
  // The process of the previous version filled the page again, uncompressed. Both read that.
  expect(fleet.origin.calls('/page')).toBe(2)
})

it('a process killed while it compresses leaves no entry, and another one fills', async () => {
  // Its compression never ends.
  const file = '/packages/redis/dist/stores/compression.js'
  await using fleet = await startFleet([COMPRESSED, COMPRESSED], {
    EDITS: JSON.stringify([
      [file, 'const MAX_WAIT_MS = 50;', 'const MAX_WAIT_MS = 600_000;'],
      [file, 'inPool: zlib.brotliCompress,', 'inPool: () => {},'],
    ]),
    EDITED: '0',
  })
  fleet.origin.answer('/page', ({ number }) => ({ body: `#${number} ${LONGER}` }))
  const [dying, other] = fleet.urls('/page') as [string, string]
  // Its own client does not wait for the compression.
  expect((await ask(dying)).body).toBe(`#1 ${LONGER}`)
  const admin = new Redis(fleet.redis.url)
  const record = async () => {
    const [name = ''] = await admin.keys('stampede:*/page*')
    return Object.keys(await admin.hgetall(name)).sort()
  }
  expect(await record()).toEqual(['lease'])
  const waiting = ask(other)
  await expect.poll(record).toContain('waiting')
  await fleet.member(0).kill()
  expect((await waiting).body).toBe(`#2 ${LONGER}`)
  await expect.poll(record).toContain('frame')
  expect((await ask(other)).body).toBe(`#2 ${LONGER}`)
  admin.disconnect()
})
