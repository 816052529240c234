// A purge of a key reaches every variant of it, in Redis and in the memory of every process.

import { createStampede, memoryStore, type PurgeTarget, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { type Framework, frameworks, type Says, type Seen } from '../harness/apps.ts'
import { ask } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()

let prefixes = 0

/** Two processes on one Redis, as two Stampedes, or one process in memory. */
function stampedes(where: 'redis' | 'memory', own: object = {}): Stampede[] {
  if (where === 'memory') return [createStampede({ store: memoryStore(), ...own })]
  prefixes += 1
  const prefix = `purge${prefixes}`
  const open = () => new Redis(server.url, { lazyConnect: true })
  return [1, 2].map(() =>
    createStampede({ store: redisStore(open(), { prefix, ...PATIENT }), ...own }),
  )
}

const express = frameworks.find(({ name }) => name === 'Express 5') as Framework

describe.each(['memory', 'redis'] as const)('a purge in %s', (where) => {
  /** Ways in which one key has several entries. */
  it.each<[string, object, (seen: Seen) => Says]>([
    ['a Vary in the responses', {}, () => ({ headers: { vary: 'X-Lang' } })],
    ['the vary option', { vary: ['x-lang'] }, () => ({})],
    ['cookies', { cookies: { key: ['lang'] } }, () => ({})],
    [
      'an identity',
      { identity: (req: { get(name: string): string }) => req.get('x-lang') },
      () => ({}),
    ],
  ])('removes all entries of a key that differ by %s', async (_, options, says) => {
    const processes = stampedes(where)
    let version = 'old'
    const apps = await Promise.all(
      processes.map((stampede) =>
        express.start(
          { stampede, ttlMs: 60_000, key: () => 'page', ...options } as object,
          (seen) => ({
            body: `${version} ${String(seen.headers['x-lang'])}`,
            ...says(seen),
          }),
        ),
      ),
    )
    try {
      const everywhere = async () => {
        const bodies: string[] = []
        for (const { url } of apps) {
          for (const lang of ['de', 'fr', 'it']) {
            const headers = { 'x-lang': lang, cookie: `lang=${lang}` }
            const sent = 'cookies' in options ? headers : { 'x-lang': lang }
            bodies.push((await ask(`${url}/`, { headers: sent })).body)
          }
        }
        return bodies
      }
      await everywhere()
      version = 'new'
      expect(new Set(await everywhere())).toEqual(new Set(['old de', 'old fr', 'old it']))
      await processes[0]?.purge({ key: 'page' })
      const fresh = new Set(['new de', 'new fr', 'new it'])
      await expect.poll(async () => new Set(await everywhere())).toEqual(fresh)
    } finally {
      for (const app of apps) await app[Symbol.asyncDispose]()
      for (const stampede of processes) await stampede.close()
    }
  })

  it.each<[string, PurgeTarget]>([
    ['tag', { tag: 'pages' }],
    ['path', { path: '/A/' }],
    ['route', { route: '/:page' }],
    ['everything', { all: true }],
  ])('reaches the memory of every process: %s', async (_, target) => {
    const processes = stampedes(where)
    let version = 'old'
    const apps = await Promise.all(
      processes.map((stampede) =>
        express.start({ stampede, ttlMs: 60_000, tags: ['pages'] }, () => ({ body: version })),
      ),
    )
    const everywhere = () =>
      Promise.all(apps.map(async ({ url }) => (await ask(`${url}/a?b=c`)).body))
    try {
      for (const before of ['old', 'new', 'newer']) {
        version = before
        await processes[0]?.purge(target)
        await expect.poll(async () => new Set(await everywhere())).toEqual(new Set([before]))
        expect((await ask(`${apps[0]?.url}/a?b=c`)).body).toBe(before)
      }
    } finally {
      for (const app of apps) await app[Symbol.asyncDispose]()
      for (const stampede of processes) await stampede.close()
    }
  })

  it.each([
    ['spaces and control characters', ' a\0b\r\nc\t'],
    ['every kind of letter', 'ÄÖ ß 日本 🧺'],
    ['a lone surrogate', 'cut off 🧺'.slice(0, -1)],
    ['many characters', '🧺'.repeat(5_000)],
    ['the text of a message', '1 2 mht=x'],
  ])('reaches every process when its tag has %s', async (_, tag) => {
    const processes = stampedes(where)
    let version = 'old'
    const everywhere = () =>
      Promise.all(
        processes.map((each) =>
          each.getOrSet('k', () => version, { ttlMs: 60_000, tags: () => [tag] }),
        ),
      )
    await everywhere()
    version = 'new'
    await processes[0]?.purge({ tag })
    await expect.poll(async () => new Set(await everywhere())).toEqual(new Set(['new']))
    for (const each of processes) await each.close()
  })

  it.each<[string, PurgeTarget, object]>([
    ['tag', { tag: 'pages' }, { tags: ['pages'] }],
    ['path', { path: '/a' }, {}],
    ['route', { route: '/:page' }, {}],
    ['key', { key: 'page' }, { key: () => 'page' }],
    ['everything', { all: true }, {}],
  ])('that is soft and comes during a run starts one new run: %s', async (_, target, own) => {
    for (const purger of where === 'redis' ? [0, 1] : [0]) {
      const processes = stampedes(where)
      const gate = createGate()
      let runs = 0
      let arrived = 0
      const bypass = () => {
        arrived += 1
        return false
      }
      const purgesHeard = processes.map(
        (stampede) => new Promise<void>((resolve) => stampede.on('entry.purged', () => resolve())),
      )
      const apps = await Promise.all(
        processes.map((stampede) =>
          express.start(
            { stampede, ttlMs: 60_000, staleWhileRevalidateMs: 60_000, bypass, ...own } as object,
            async () => {
              runs += 1
              const body = `run ${runs}`
              if (runs === 1) await gate.opened
              return { body }
            },
          ),
        ),
      )
      const get = async (index: number) => {
        const { body, headers } = await ask(`${apps[index]?.url}/a`, {
          headers: { host: 'shop.test' },
        })
        return { body, isFresh: !/ttl=-|fwd=stale/.test(String(headers['cache-status'])) }
      }
      try {
        const filling = get(0)
        await expect.poll(() => runs).toBe(1)
        await processes[purger]?.purge(target, { soft: true })
        await Promise.all(purgesHeard)
        const after = apps.map((_app, index) => get(index))
        await expect.poll(() => arrived).toBe(1 + apps.length)
        gate.open()
        expect((await filling).body).toBe('run 1')
        for (const { body, isFresh } of await Promise.all(after)) {
          expect([
            ['run 1', false],
            ['run 2', true],
          ]).toContainEqual([body, isFresh])
        }
        const last = () => Promise.all(apps.map((_app, index) => get(index)))
        const fresh = apps.map(() => ({ body: 'run 2', isFresh: true }))
        await expect.poll(last).toEqual(fresh)
        expect(runs).toBe(2)
      } finally {
        gate.open()
        for (const app of apps) await app[Symbol.asyncDispose]()
        for (const stampede of processes) await stampede.close()
      }
    }
  })

  it('refuses the commit of a variant that is being filled', async () => {
    const [stampede] = stampedes(where)
    if (stampede === undefined) throw new Error('no process')
    let release: (() => void) | undefined
    let runs = 0
    const app = await express.start(
      { stampede, ttlMs: 60_000, key: () => 'page', vary: ['x-lang'] } as object,
      async () => {
        runs += 1
        const body = `run ${runs}`
        if (runs === 1) await new Promise<void>((resolve) => (release = resolve))
        return { body }
      },
    )
    const filling = ask(`${app.url}/`)
    await expect.poll(() => release !== undefined).toBe(true)
    await stampede.purge({ key: 'page' })
    release?.()
    expect((await filling).body).toBe('run 1')
    expect((await ask(`${app.url}/`)).body).toBe('run 2')
    expect((await ask(`${app.url}/`)).body).toBe('run 2')
    await app[Symbol.asyncDispose]()
    await stampede.close()
  })

  it('reaches the page of one language after the 404 of another language expired', async () => {
    const processes = stampedes(where)
    let version = 'old'
    const says = ({ headers }: Seen): Says => {
      const isFound = headers['accept-language'] === 'en'
      const vary = { vary: 'Accept-Language' }
      return isFound ? { headers: vary, body: version } : { headers: vary, status: 404, body: 'no' }
    }
    const options = { ttlMs: 600_000, negativeTtlMs: 300 }
    const apps = await Promise.all(
      processes.map((stampede) => express.start({ stampede, ...options } as object, says)),
    )
    const [first, last] = [apps[0]?.url, apps.at(-1)?.url]
    const get = async (url: string | undefined, language: string) =>
      (await ask(`${url}/page`, { headers: { 'accept-language': language } })).body
    try {
      // The entry of the first language is in the record of the group itself.
      for (const language of ['de', 'en']) await get(first, language)
      await new Promise((resolve) => setTimeout(resolve, 400))
      expect(await get(first, 'de')).toBe('no')
      // Waits until that record has expired.
      await new Promise((resolve) => setTimeout(resolve, 2_000))
      expect(await get(first, 'en')).toBe('old')
      version = 'new'
      await ask(`${first}/page`, { method: 'PUT', headers: { 'accept-language': 'en' } })
      expect(await get(first, 'en')).toBe('new')
      await expect.poll(() => get(last, 'en')).toBe('new')
    } finally {
      for (const app of apps) await app[Symbol.asyncDispose]()
      for (const stampede of processes) await stampede.close()
    }
  })

  it('causes one event in each process', async () => {
    const processes = stampedes(where)
    const heard = processes.map(() => [] as string[])
    for (const [i, stampede] of processes.entries()) {
      await stampede.getOrSet('page', () => 'value', { ttlMs: 60_000 })
      stampede.on('entry.purged', ({ internalKey }) => heard[i]?.push(internalKey))
    }
    try {
      await processes[0]?.purge({ key: 'page' })
      // For the value and for the response of that key.
      const both = ['d:=page', 'http:key 5:=page']
      for (const all of heard) await expect.poll(() => [...all].sort()).toEqual(both)
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(heard.flat()).toHaveLength(2 * processes.length)
    } finally {
      for (const stampede of processes) await stampede.close()
    }
  })

  describe('of a key', () => {
    const LANGS = ['de', 'fr']
    /** The apps of all processes, with one key of two variants. `purge` resolves in all of them. */
    async function pages(
      says: (lang: string) => Says | Promise<Says>,
      own: object = {},
    ): Promise<
      AsyncDisposable & { get: typeof get; purge: () => Promise<unknown>; urls: string[] }
    > {
      const processes = stampedes(where, own)
      const options = { ttlMs: 60_000, key: () => 'page', vary: ['x-lang'] }
      const apps = await Promise.all(
        processes.map((stampede) =>
          express.start({ stampede, ...options } as object, ({ headers }) =>
            says(String(headers['x-lang'])),
          ),
        ),
      )
      const isHeard = (stampede: Stampede) =>
        new Promise<void>((resolve) =>
          stampede.on('entry.purged', (event) => event.internalKey.startsWith('http') && resolve()),
        )
      return {
        urls: apps.map(({ url }) => url),
        get,
        purge: () => Promise.all([...processes.map(isHeard), processes[0]?.purge({ key: 'page' })]),
        async [Symbol.asyncDispose]() {
          for (const app of apps) await app[Symbol.asyncDispose]()
          for (const stampede of processes) await stampede.close()
        },
      }
    }
    const get = (url: string, lang: string) => ask(`${url}/`, { headers: { 'x-lang': lang } })

    it('ends the hit-for-miss of each variant, so that requests share a run again', async () => {
      let isShared = false
      const runs: string[] = []
      await using app = await pages((lang) => {
        runs.push(lang)
        return isShared ? { body: lang } : { headers: { 'set-cookie': 'a=1' } }
      })
      for (const _ of [1, 2]) {
        for (const url of app.urls) for (const lang of LANGS) await get(url, lang)
      }
      isShared = true
      runs.length = 0
      await app.purge()
      await Promise.all(
        [...app.urls, ...app.urls].flatMap((url) => LANGS.map((lang) => get(url, lang))),
      )
      expect(runs.sort()).toEqual(LANGS)
    })

    it('ends the back-off of each variant after a failure', async () => {
      let status = 503
      await using app = await pages(
        async () => {
          await new Promise((resolve) => setTimeout(resolve, 50))
          return { status }
        },
        { failureBackoffMs: 60_000 },
      )
      const all = () =>
        Promise.all(
          [...app.urls, ...app.urls].flatMap((url) => LANGS.map((lang) => get(url, lang))),
        )
      await all()
      expect((await all()).map((answer) => answer.status)).not.toContain(200)
      status = 200
      await app.purge()
      expect(new Set((await all()).map((answer) => answer.status))).toEqual(new Set([200]))
    })

    it('lets the next request of each variant run the handler while an older run goes on', async () => {
      const gate = createGate()
      const runs: string[] = []
      await using app = await pages(async (lang) => {
        runs.push(lang)
        if (runs.length <= LANGS.length) await gate.opened
        return { body: `run ${runs.length}` }
      })
      try {
        const [first = ''] = app.urls
        const before = LANGS.map((lang) => get(first, lang))
        await expect.poll(() => runs.length).toBe(LANGS.length)
        await app.purge()
        for (const url of app.urls) for (const lang of LANGS) await get(url, lang)
        expect(runs.slice(LANGS.length)).toEqual(LANGS)
        gate.open()
        await Promise.all(before)
      } finally {
        gate.open()
      }
    })
  })

  it('leaves no entry to serve for an error if it comes during a refresh', async () => {
    const processes = stampedes(where)
    const [stampede, other = stampede] = processes
    if (stampede === undefined || other === undefined) throw new Error('no process')
    const fails: Array<() => void> = []
    let [runs, purges] = [0, 0]
    stampede.on('entry.purged', () => (purges += 1))
    const options = { stampede, ttlMs: 300, staleIfErrorMs: 60_000, key: () => 'page' }
    const app = await express.start({ ...options, vary: ['x-lang'] } as object, async () => {
      runs += 1
      if (runs === 1) return { body: 'old' }
      await new Promise<void>((resolve) => fails.push(resolve))
      return { status: 503, body: 'broken' }
    })
    try {
      expect((await ask(`${app.url}/`)).body).toBe('old')
      await new Promise((resolve) => setTimeout(resolve, 400))
      const asked = [ask(`${app.url}/`)]
      await expect.poll(() => fails.length).toBe(1)
      await other.purge({ key: 'page' })
      // For the value and for the response of that key.
      await expect.poll(() => purges).toBe(2)
      fails[0]?.()
      expect((await Promise.all(asked)).map(({ status, body }) => [status, body])).toEqual([
        [503, 'broken'],
      ])
    } finally {
      for (const fail of fails) fail()
      await app[Symbol.asyncDispose]()
      for (const each of processes) await each.close()
    }
  })

  it('makes every variant stale if the purge is soft', async () => {
    const [stampede] = stampedes(where)
    if (stampede === undefined) throw new Error('no process')
    let runs = 0
    const options = {
      stampede,
      ttlMs: 60_000,
      staleWhileRevalidateMs: 60_000,
      key: () => 'page',
      vary: ['x-lang'],
    }
    const app = await express.start(options as object, () => {
      runs += 1
      return { body: `run ${runs}` }
    })
    const lang = (value: string) => ask(`${app.url}/`, { headers: { 'x-lang': value } })
    await lang('de')
    await lang('fr')
    await stampede.purge({ key: 'page' }, { soft: true })
    for (const value of ['de', 'fr']) {
      expect((await lang(value)).headers['cache-status']).toMatch(/hit; ttl=(-\d+|0)$/)
    }
    await expect.poll(() => runs).toBe(4)
    await app[Symbol.asyncDispose]()
    await stampede.close()
  })
})

describe('a purge by a process without entries', () => {
  it('outdates no entry with another tag, although the purge before it is days old', async () => {
    const prefix = 'old-marks'
    const open = () => {
      const redis = new Redis(server.url, { lazyConnect: true })
      return createStampede({ store: redisStore(redis, { prefix, ...PATIENT }) })
    }
    const admin = new Redis(server.url)
    const [meta, log, marks] = ['meta', 'log', 'marks'].map(
      (name) => `${prefix}:4:{purges}:${name}`,
    )
    const [seconds] = await admin.time()
    const before = (Number(seconds) - 9 * 86_400) * 1_000_000
    await admin.hset(meta as string, { last: `${before}-1`, floor: before, marks: 0 })
    let runs = 0
    const askAll = async (stampede: Stampede) => {
      const all = Array.from({ length: 20 }, (_, i) =>
        stampede.getOrSet(`k${i}`, () => (runs += 1), { ttlMs: 30 * 86_400_000, tags: ['t'] }),
      )
      await Promise.all(all)
    }
    const first = open()
    await askAll(first)
    expect(runs).toBe(20)
    // A purge of eight days ago, after these entries.
    const id = `${before + 86_400_000_000}-1`
    const position = Number.parseInt(id, 10)
    await admin.xadd(log as string, id, 'prev', `${before}-1`, 'event', 'mht=other')
    await admin.zadd(marks as string, position, 'ht=other')
    await admin.hset(meta as string, { last: id, marks: 1 })
    const operator = open()
    await operator.purge({ tag: 'unused' })
    const late = open()
    for (const stampede of [first, operator, late]) await askAll(stampede)
    expect(runs).toBe(20)
    await operator.purge({ tag: 't' })
    await askAll(operator)
    expect(runs).toBe(40)
    for (const stampede of [first, operator, late]) await stampede.close()
    admin.disconnect()
  })
})
