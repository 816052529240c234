// The commands of `stampede` on the Redis of a fleet, whose processes are Stampedes of this test.

import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage, METHODS } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { createStampede, type Stampede } from '@stampede/core'
import { requestKey } from '@stampede/core/operator'
import { stampedeDashboard } from '@stampede/dashboard'
import { stampedeCache } from '@stampede/express'
import { createLocks } from '@stampede/locks'
import { idempotentFront } from '@stampede/node-http'
import { observe } from '@stampede/operate'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serve } from '../../packages/node-http/src/testing/raw-client.ts'
import { listen } from '../harness/apps.ts'
import { LIFETIMES } from '../harness/bare-store.ts'
import { commandLine, program } from '../harness/command-line.ts'
import { createGate } from '../harness/origin.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startRedis } from '../harness/redis-server.ts'

const { server, admin } = await redisOfFile()
const run = commandLine(server.url)
const SECRET = 'a secret of at least 32 characters'

const newStore = () => redisStore(new Redis(server.url, { lazyConnect: true }), OPTIONS)
const OPTIONS = { commandTimeoutMs: 2_000 }
let store: ReturnType<typeof newStore>
let stampede: Stampede

beforeEach(async () => {
  await admin.flushall()
  store = newStore()
  stampede = createStampede({ store, idempotency: { secret: SECRET } })
})
afterEach(() => stampede.close())

const fill = (key: string, tags: string[] = []) =>
  stampede.getOrSet(key, () => ({ usd: 1.08 }), { ttlMs: 60_000, tags })

/** Stores bytes as the response of a URL. They are no response, so only the record counts. */
async function storeAt(url: string, lifetimes = LIFETIMES): Promise<void> {
  const { key } = requestKey({ url })
  const reply = await store.lookup(key, { token: 'writer', leaseMs: 5_000 })
  if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
  await store.commit(reply.grant, Buffer.from('frame'), lifetimes)
}

// The start of Node takes long on a busy machine.
describe('stampede', { timeout: 120_000 }, () => {
  it('prints its commands without arguments and with --help', async () => {
    const start = program(server.url)
    const [none, help] = [await start(), await start('--help')]
    expect([none.code, help.code]).toEqual([2, 0])
    for (const { out } of [none, help]) expect(out).toMatch(/^ {2}doctor /m)
    expect((await run('why', '--help')).out).toMatch(/^Usage: npx @stampede\/cli why \[QUERY\] URL/)
  })

  it('has exit code 3 and an error as JSON if Redis is unavailable or frozen', async () => {
    const gone = await program('redis://127.0.0.1:1')('get', 'k', '--json')
    expect(gone.code).toBe(3)
    expect(JSON.parse(gone.out).error.message).toContain('ECONNREFUSED')
    await using frozen = await startRedis()
    await frozen.pause()
    const { code, err } = await program(frozen.url)('locks', '--timeout', '500')
    expect(code).toBe(3)
    expect(err).toContain('accepts connections, but did not reply within 500 ms')
  })
})

describe('get', () => {
  it('shows the value of a key', async () => {
    await fill('rates', ['money'])
    const { code, out } = await run('get', 'rates')
    expect(out).toMatch(/^key +d:=rates$/m)
    expect(out).toMatch(/^stored +value \(json\), 12 B, fresh$/m)
    expect(out).toMatch(/^tags +money$/m)
    expect(code).toBe(0)
    expect((await run('get', 'rates', '--body')).out).toBe('{"usd":1.08}')
  })

  it('prints JSON, and has exit code 1 for a key that is not stored', async () => {
    await fill('rates')
    const { records } = JSON.parse((await run('get', 'rates', '--json')).out)
    expect(records).toMatchObject([
      { internalKey: 'd:=rates', state: 'fresh', entry: { type: 'value', bodyBytes: 12 } },
    ])
    const none = await run('get', 'other', '--json')
    expect([none.code, JSON.parse(none.out)]).toEqual([1, { records: [] }])
    const noBody = await run('get', 'other', '--body', '--json')
    expect(noBody).toMatchObject({ code: 1, out: none.out })
  })

  it('shows no control characters of a key', async () => {
    await fill('a\x1b[31m')
    expect((await run('get', 'a\x1b[31m')).out).not.toContain('\x1b')
  })

  it('uses the prefix of the store', async () => {
    await fill('rates')
    expect((await run('get', 'rates', '--prefix', 'other')).code).toBe(1)
  })
})

describe('why', () => {
  const URL_A = 'https://shop.example/a'
  const answer = async (...args: string[]) => {
    const { code, out } = await run('why', ...args)
    expect(code).toBe(0)
    return out.trimEnd().split('\n').at(-1)
  }

  it('explains hits, variants and purges of an app on Express', async () => {
    const app = express()
    app.use(stampedeCache({ stampede, ttlMs: 60_000, tags: ['all'] }))
    app.get('/a', (request, response) => {
      response.vary('accept-language').send(`for ${request.get('accept-language')}`)
    })
    await using listening = await listen(app)
    const url = `${listening.url}/a`
    const [de, en] = ['accept-language: de', 'accept-language: en']
    await fetch(url, { headers: { 'accept-language': 'de' } })
    expect(await answer(url, '--header', de)).toMatch(/is a hit: the response was stored/)
    expect(await answer(url, '--header', en)).toContain('is a miss')
    await fetch(url, { headers: { 'accept-language': 'en' } })
    expect(await answer(url, '--header', en)).toContain('is a hit')
    const { out } = await run('why', url, '--header', de)
    expect(out).toMatch(/^stored +response 200, 6 B, fresh$/m)
    expect(out).toMatch(/^vary +accept-language: de$/m)
    await run('purge', '--tag', 'all')
    expect(await answer(url, '--header', de)).toMatch(/is a miss, .* was purged by tag all, /)
  })

  it.skipIf(!METHODS.includes('QUERY'))('explains a QUERY by its body', async () => {
    const app = express()
    app.use(stampedeCache({ stampede, methods: ['GET', 'QUERY'], ttlMs: 60_000 }))
    app.use(express.json(), (request, response) => void response.json(request.body))
    await using listening = await listen(app)
    const folder = await mkdtemp(join(tmpdir(), 'stampede-'))
    try {
      const url = `${listening.url}/search`
      const headers = { 'content-type': 'application/json' }
      const sent = httpRequest(url, { method: 'QUERY', headers }).end('{"q":"a","page":1}')
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      await textOf(response)
      await expect.poll(() => stampede.stats().fills.committed).toBe(1)
      const type = ['--header', 'content-type: application/json']
      const file = join(folder, 'body.json')
      await writeFile(file, '{ "page": 1, "q": "a" }')
      for (const data of ['{"q":"a","page":1}', `@${file}`])
        expect(await answer('QUERY', url, '--data', data, ...type)).toContain('is a hit')
      expect(await answer('QUERY', url, '--data', '{"q":"b"}', ...type)).toContain('is a miss')
      expect(await answer(url)).toContain('is a miss')
      expect(await answer('QUERY', url, '--data', '{"q":"a","page":1}')).toContain('content-type')
      const curl = `curl -X QUERY ${url} -H 'content-type: application/json' -d '{"q":"a","page":1}'`
      expect(await answer('--curl', curl)).toContain('is a hit')
      expect((await run('why', 'QUERY', url)).code).toBe(2)
      expect((await run('why', url, '--data', '{}')).code).toBe(2)
      expect((await run('why', 'QUERY', url, '--data', '@/no/such/file')).code).toBe(2)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('says that nothing is stored, in its last line', async () => {
    expect(await answer(URL_A)).toMatch(/^A request for https:.* is a miss: nothing is stored/)
  })

  it('says that the last response was not kept, for a record without an entry', async () => {
    const { key } = requestKey({ url: URL_A })
    const reply = await store.lookup(key, { token: 'filler', leaseMs: 20_000 })
    if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
    await store.pass(reply.grant, 0)
    expect(await answer(URL_A)).toMatch(/was requested, but its last response was not kept; read/)
  })

  it('says that the cache is bypassed', async () => {
    expect(await answer(URL_A, '--header', 'cookie: a=b')).toContain('bypasses the cache')
    expect(await answer(URL_A, '--header', 'cookie: a=b', '--cookies', 'ignore')).toContain('miss')
  })

  it('says that another process fills the key, and how many wait', async () => {
    const { key } = requestKey({ url: URL_A })
    await store.lookup(key, { token: 'filler', leaseMs: 20_000 })
    expect(await answer(URL_A)).toMatch(/waits for the process that fills.* 0 processes waiting\.$/)
  })

  it.each([true, false])(
    'says why the last response was not stored, from reports with showKeys: %s',
    async (showKeys) => {
      const observer = observe(stampede, { showKeys })
      const app = express().use(stampedeCache({ stampede, ttlMs: 60_000 }))
      app.get('/a', (_request, response) => void response.cookie('a', 'b').send('mine'))
      await using listening = await listen(app)
      try {
        const url = `${listening.url}/a`
        // The second response in a row that cannot be shared makes the key hit-for-miss.
        for (const _ of [1, 2]) await fetch(url)
        await store.operator.report(observer.id, observer.reportText(), 20_000)
        const { out } = await run('why', url)
        expect(out).toMatch(
          /could not be shared \(set-cookie; with express-session.* see docs.*#set-cookie-and-sessions\); hit-for-miss ends in/,
        )
        expect(out).toMatch(/Last outcomes in the fleet:\n.*fill\.passed.*reason="set-cookie"/)
      } finally {
        observer.close()
      }
    },
  )

  it('says why the last run failed, and lists its events newest first', async () => {
    const observer = observe(stampede)
    const app = express().use(stampedeCache({ stampede, ttlMs: 60_000 }))
    app.get('/a', (_request, response) => void response.status(500).send('broken'))
    await using listening = await listen(app)
    try {
      const url = `${listening.url}/a`
      await fetch(url)
      const { recent, ...rest } = observer.report()
      // The events of one millisecond, the first one first.
      const inOneMs = recent.map((event) => ({ ...event, at: recent[0]?.at }))
      const report = JSON.stringify({ ...rest, recent: inOneMs })
      await store.operator.report(observer.id, report, 20_000)
      const { out } = await run('why', url)
      expect(out).toMatch(/fill\.failed .*failure="500 the status was 500"/)
      const types = [...out.matchAll(/ago {2}([\w.-]+)/g)].map(([, type]) => type)
      expect(types.indexOf('fill.failed')).toBeLessThan(types.indexOf('fill.started'))
    } finally {
      observer.close()
    }
  })

  it('reads the reports of a dashboard', async () => {
    const dashboard = stampedeDashboard({ stampede, authorize: () => true })
    const app = express().use(stampedeCache({ stampede, ttlMs: 60_000 }))
    app.get('/a', (_request, response) => void response.status(500).send('broken'))
    await using listening = await listen(app)
    try {
      const url = `${listening.url}/a`
      await fetch(url)
      const why = async () => (await run('why', url)).out
      await expect.poll(why).toMatch(/fill\.failed .*failure="500 the status was 500"/)
      const failed = /the last run of the handler failed \(500 the status was 500\)/
      await expect.poll(why).toMatch(failed)
    } finally {
      await dashboard.close()
    }
  })

  it('says that a response of the other scheme is stored', async () => {
    await storeAt('http://shop.example/a')
    expect(await answer(URL_A)).toContain('a response for http://shop.example/a is stored')
  })

  it('says that the entry was purged, and by which purge', async () => {
    await fill('rates', ['money'])
    await stampede.purge({ tag: 'money' })
    const { out } = await run('get', 'rates')
    expect(out).toMatch(/^stored +value \(json\), 12 B, purged$/m)
    expect(out).toMatch(/^purged +by tag money, .* ago$/m)
  })

  it('has everything as JSON', async () => {
    const found = JSON.parse((await run('why', URL_A, '--json')).out)
    expect(found).toMatchObject({
      url: URL_A,
      bypass: null,
      records: [{ internalKey: requestKey({ url: URL_A }).key, state: 'none' }],
      outcomes: [],
      answer: expect.stringContaining('is a miss'),
    })
  })
})

describe('purge', () => {
  it('refuses a path with a wildcard, and names the route to use', async () => {
    const { code, err } = await run('purge', '--path', '/products/*')
    expect([code, err]).toEqual([2, expect.stringContaining("use { route: '/products/*' }")])
  })

  it('purges several names of one kind by one command', async () => {
    const tags = ['--tag', 'a', '--tag', 'b']
    expect((await run('purge', ...tags)).out).toContain('Each entry of the tags a, b is purged.')
    const { target } = JSON.parse((await run('purge', ...tags, '--soft', '--json')).out)
    expect(target).toEqual({ tags: ['a', 'b'] })
    const keys = await run('purge', '--key', 'a', '--key', 'b')
    expect([keys.code, keys.out]).toEqual([0, expect.stringContaining('The keys a, b are purged.')])
    expect((await run('purge', '--tag', 'a', '--key', 'b')).code).toBe(2)
    expect((await run('purge', '--tag', 'a', '--cache', 'b')).code).toBe(2)
  })

  it('refuses a wrong pattern, with exit code 2', async () => {
    const { code, err } = await run('purge', '--route', 'no slash')
    expect([code, err]).toEqual([2, expect.stringContaining('begin it with /')])
  })

  it.each([
    ['--key', 'rates'],
    ['--tag', 'money'],
    ['--tag', 'other', '--tag', 'money'],
    ['--key', 'other', '--key', 'rates'],
    ['--cache', 'money'],
    ['--all', '--yes'],
  ])('purges by %s %s in the whole fleet, hard and soft', async (...target) => {
    const state = async () =>
      JSON.parse((await run('get', cached ? 'money:rates' : 'rates', '--json')).out).records[0]
        ?.state
    const options = { ttlMs: 60_000, tags: ['money'], keepMs: 60_000 }
    const cached = target.includes('--cache')
    if (cached) await stampede.cache('money', options).set('rates', 1)
    else await stampede.getOrSet('rates', () => 1, options)
    expect((await run('purge', ...target, '--soft')).code).toBe(0)
    expect(await state()).toBe('expired')
    expect((await run('purge', ...target)).code).toBe(0)
    expect([undefined, 'purged']).toContain(await state())
  })
})

describe('locks', () => {
  it('lists held locks with holder, times and queue', async () => {
    const locks = createLocks({ store })
    const other = createLocks({ store: newStore() })
    try {
      expect((await run('locks')).out).toMatch(/^No lock is held\. .*`--prefix` \(now stampede\)/)
      const lease = await locks.acquire('door', { leaseMs: 60_000 })
      const waiting = other.acquire('door', { waitMs: 20_000 })
      await expect.poll(async () => (await store.operator.inspectLock('door'))?.queue).toBe(1)
      const { out } = await run('locks')
      expect(out).toMatch(/^door +\S{6}… .* 1 +\d+$/m)
      const { locks: listed } = JSON.parse((await run('locks', 'door', '--json')).out)
      expect(listed).toMatchObject([{ key: 'door', queue: 1, fence: String(lease.fence) }])
      expect((await run('locks', 'gate')).code).toBe(1)
      await lease.release()
      await (await waiting).release()
    } finally {
      await locks.close()
      await other.close()
    }
  })
})

describe('output about other processes', () => {
  it('has no control characters of their reports', async () => {
    const url = 'https://shop.example/a'
    const { key: id } = requestKey({ url })
    const fields = { failure: 'no \x1b[31m', 'f\x9b2J': '\x9b2J' }
    const recent = [{ at: Date.now(), type: 'fill.failed', id, fields }]
    const report = { id: 'r', host: 'h\x1b[2J', pid: 1, recent }
    await store.operator.report('r', JSON.stringify(report), 20_000)
    const { out } = await run('why', url)
    expect(out).toContain('no \\u001b[31m')
    expect(out.match(/[^\n\x20-\x7e]/g)).toBeNull()
  })
})

describe('idempotency', () => {
  const withSecret = commandLine(server.url, { STAMPEDE_SECRET: SECRET })

  it('lists keys, shows one and settles one', async () => {
    await expect(
      stampede.idempotent('invoice:7', () => {
        throw new Error('no paper')
      }),
    ).rejects.toThrow('no paper')
    const { records } = JSON.parse((await run('idempotency', 'list', '--json')).out)
    expect(records).toMatchObject([{ state: 'released', attempt: 1 }])
    const none = await run('idempotency', 'list', '--state', 'uncertain')
    expect(none.out).toBe('No key is stored.\n')
    const shown = await withSecret('idempotency', 'show', 'invoice:7', '--job')
    expect(shown.out).toMatch(/^state +released$/m)
    // Without the secret of the application, the hash of the key is another one.
    expect((await run('idempotency', 'show', 'invoice:7', '--job')).code).toBe(1)
    const settle = ['idempotency', 'settle', 'invoice:7', '--job', '--value', '{"by":"hand"}']
    expect((await withSecret(...settle)).code).toBe(0)
    expect(await stampede.idempotent('invoice:7', () => 'again')).toEqual({ by: 'hand' })
    expect((await withSecret(...settle)).code).toBe(1)
    const shownValue = await withSecret('idempotency', 'show', 'invoice:7', '--job', '--json')
    expect(JSON.parse(shownValue.out).record).toMatchObject({ value: { by: 'hand' } })
  })

  it('sets the response of a request, with the bytes of the body that was given', async () => {
    const scope = () => 'ada'
    const fail = idempotentFront((_req, res) => void res.writeHead(500).end(), { stampede, scope })
    await using app = await serve(fail)
    const init = { method: 'POST', headers: { 'Idempotency-Key': 'k-1' } }
    const post = () => fetch(`http://127.0.0.1:${app.port}/pay`, init)
    expect((await post()).status).toBe(500)
    const body = '{"id": 12345678901234567890}'
    const answer = ['--status', '201', '--body', body]
    const settled = await withSecret('idempotency', 'settle', 'k-1', '--scope', 'ada', ...answer)
    expect(settled.code).toBe(0)
    const repeat = await post()
    expect([repeat.status, await repeat.text()]).toEqual([201, body])
    expect(repeat.headers.get('content-type')).toBe('application/json; charset=utf-8')
  })
})

describe('top', () => {
  it('shows 99 % saved for 100 calls that waited for one run', async () => {
    const observer = observe(stampede)
    const slow = createGate()
    const calls = Array.from({ length: 100 }, () =>
      stampede.getOrSet('slow', () => slow.opened.then(() => 1), { ttlMs: 60_000 }),
    )
    slow.open()
    await Promise.all(calls)
    await store.operator.report(observer.id, observer.reportText(), 20_000)
    observer.close()
    const { out } = await run('top')
    expect(out).toMatch(/hit ratio 0\.0 % .* saved from the origin 99\.0 %/)
  })

  it('shows the processes that report, their sum, keys under work and hot keys', async () => {
    const observers = [observe(stampede), observe(stampede)]
    await fill('rates')
    // A call before the commit joins the fill, and is a miss.
    await expect.poll(() => stampede.stats().active.flights).toBe(0)
    for (let i = 0; i < 9; i++) await fill('rates')
    const slow = createGate()
    const filling = stampede.getOrSet('slow', () => slow.opened.then(() => 1), { ttlMs: 1_000 })
    await expect.poll(() => stampede.stats().active.leases).toBe(1)
    for (const observer of observers) {
      await store.operator.report(observer.id, observer.reportText(), 20_000)
      observer.close()
    }
    await store.operator.report('c', 'not json', 20_000)
    const { code, out } = await run('top')
    slow.open()
    await filling
    expect(code).toBe(0)
    expect(out).toMatch(
      /^2 processes .*hit ratio 90\.0 %.*saved from the origin 90\.0 %.*origin time saved/m,
    )
    expect(out).toMatch(new RegExp(`^\\S+:${process.pid} .* 10 +90\\.0 % .* up$`, 'm'))
    expect(out).toMatch(/^filling .* 0 .* slow$/m)
    expect(out).toMatch(/^ *18 +rates$/m)
    const { total } = JSON.parse((await run('top', '--json')).out)
    expect(total).toMatchObject({ requests: 20, hits: 18 })
  })

  it('has exit code 1 if no process reports', async () => {
    const { code, out } = await run('top', '--once')
    expect([code, out]).toEqual([1, expect.stringContaining('No process reports')])
  })
})
