// Cases: one run and many clients. They check the waits, and the response of each client if
// something fails.
import { AsyncLocalStorage } from 'node:async_hooks'
import { connect } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { RecordStore } from '@stampede/core/testing'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { type Answer, ask, burst } from '../requests.ts'
import type { CacheAdapter, Handler, Says } from './adapter.ts'
import { get, leave, setUp, statusOf } from './bench.ts'

const bodies = (answers: readonly Answer[]): Set<string> => new Set(answers.map(({ body }) => body))
const statuses = (answers: readonly Answer[]): Set<number> =>
  new Set(answers.map(({ status }) => status))

export function sharingCases(adapter: CacheAdapter): void {
  it('run the handler in parallel if the response cannot be shared, also the next fifty', async () => {
    const gates = [createGate(), createGate()]
    const { runs, start } = setUp(adapter, async (_seen, run) => {
      // The first two responses are not shareable. The other runs wait at the gate together.
      if (run > 2) await gates[run <= 50 ? 0 : 1]?.opened
      return { headers: { 'set-cookie': `id=${run}` } }
    })
    await using app = await start()
    for (const [round, gate] of gates.entries()) {
      const asked = burst([`${app.url}/a`], 50)
      await runs.reached((round + 1) * 50)
      gate.open()
      const answers = await asked
      expect(bodies(answers).size).toBe(50)
      expect(new Set(answers.map(({ headers }) => String(headers['set-cookie']))).size).toBe(50)
    }
  })

  it.each([
    'Authentication-Info',
    'Authorization',
    'X-Auth-Token',
    'X-CSRF-Token',
    'Clear-Site-Data',
  ])('get no %s field that belongs to another client', async (name) => {
    const gate = createGate()
    const { arrivals, start } = setUp(adapter, async (_seen, run) => {
      await gate.opened
      return { headers: { [name]: `for run ${run}` } }
    })
    await using app = await start()
    const asked = burst([`${app.url}/a`], 3)
    await arrivals.reached(3)
    gate.open()
    const answers = [...(await asked), await ask(`${app.url}/a`)]
    const fields = answers.map(({ headers }) => headers[name.toLowerCase()])
    expect(fields).toHaveLength(4)
    for (const [i, { body }] of answers.entries()) expect(fields[i]).toBe(`for ${body}`)
    expect(bodies(answers).size).toBe(4)
  })

  it('store the first response that can be shared after one that set a cookie', async () => {
    const { happened, runs, start } = setUp(adapter, (_seen, run) =>
      run === 1 ? { headers: { 'set-cookie': 'id=1' } } : {},
    )
    await using app = await start()
    await ask(`${app.url}/a`)
    const second = await ask(`${app.url}/a`)
    expect([second.body, second.headers['set-cookie']]).toEqual(['run 2', undefined])
    expect(statusOf(second)).toContain('stored')
    await happened('fill.committed')
    const third = await ask(`${app.url}/a`)
    expect([third.body, statusOf(third)]).toEqual(['run 2', 'Stampede; hit; ttl=10'])
    expect(runs.count).toBe(2)
  })

  it.each<[string, Says]>([
    ['a private response', { headers: { 'cache-control': 'private' } }],
    ['a redirect', { status: 302, headers: { location: '/login' } }],
    ['a 404', { status: 404 }],
  ])('share the next response of a cold key after %s to one odd request', async (_what, odd) => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async ({ headers }) => {
      if (headers['x-odd'] !== undefined) return odd
      await gate.opened
      return {}
    })
    await using app = await start()
    await ask(`${app.url}/a`, { headers: { 'x-odd': 'yes' } })
    const asked = burst([`${app.url}/a`], 40)
    await arrivals.reached(41)
    gate.open()
    expect(bodies(await asked)).toEqual(new Set(['run 2']))
    expect(runs.count).toBe(2)
  })

  it('store only the response of the handler that holds the lease', async () => {
    const gate = createGate()
    const { clock, runs, start } = setUp(adapter, async (_seen, run) => {
      if (run === 3) await gate.opened
      return run > 3 ? {} : { headers: { 'set-cookie': `id=${run}` } }
    })
    await using app = await start()
    for (const _ of [1, 2]) await ask(`${app.url}/a`)
    await clock.advance(100)
    const observed = ask(`${app.url}/a`)
    await runs.reached(3)
    const beside = await Promise.all([ask(`${app.url}/a`), ask(`${app.url}/a`)])
    expect(bodies(beside)).toEqual(new Set(['run 4', 'run 5']))
    for (const answer of beside) expect(statusOf(answer)).toContain('detail=hit-for-miss')
    gate.open()
    expect(statusOf(await observed)).toContain('detail=set-cookie')
    expect((await ask(`${app.url}/a`)).body).toBe('run 6')
  })

  it('each run the handler after waitMs if the first handler never responds', async () => {
    const { arrivals, clock, runs, stampede, start } = setUp(adapter, (_seen, run) =>
      run === 1 ? new Promise<never>(() => {}) : {},
    )
    await using app = await start({ waitMs: 5_000, originTimeoutMs: 60_000 })
    const { go } = leave(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    await clock.advance(4_999)
    expect(runs.count).toBe(1)
    await clock.advance(1)
    const answers = await waiting
    expect(bodies(answers).size).toBe(10)
    expect(new Set(answers.map(statusOf))).toEqual(
      new Set(['Stampede; fwd=uri-miss; detail=wait-timeout']),
    )
    // Each run gives its slot back when its response has ended.
    await expect.poll(() => stampede.stats().unleased.running).toBe(0)
    go()
  })

  it('keep an originConcurrency slot until the response ends while the store is unavailable', async () => {
    const body = new Readable({ read() {} })
    const away = () => Promise.reject(new Error('the store is away'))
    const store = Object.assign(new RecordStore(), { lookup: away })
    const { happened, stampede, start } = setUp(
      adapter,
      (_seen, run) => (run === 1 ? { headers: { 'set-cookie': 'id=1' }, body } : {}),
      { store, originConcurrency: 1 },
    )
    await using app = await start()
    body.push('begun')
    const first = ask(`${app.url}/a`)
    await happened('fill.passed')
    const second = ask(`${app.url}/b`)
    await happened('fill.queued')
    body.push(null)
    expect((await first).body).toBe('begun')
    expect((await second).body).toBe('run 2')
    await expect.poll(() => stampede.stats().unleased.running).toBe(0)
  })

  it('get a stale-if-error entry if the handler exceeds softTimeoutMs', async () => {
    const gate = createGate()
    const { arrivals, clock, happened, runs, start } = setUp(adapter, async (_seen, run) => {
      if (run === 2) await gate.opened
      return {}
    })
    await using app = await start({ ttlMs: 1_000, staleIfErrorMs: 60_000, softTimeoutMs: 300 })
    await ask(`${app.url}/a`)
    await happened('fill.committed')
    await clock.advance(2_000)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    await runs.reached(2)
    await clock.advance(300)
    const answers = await waiting
    expect(bodies(answers)).toEqual(new Set(['run 1']))
    expect(new Set(answers.map(statusOf))).toEqual(
      new Set(['Stampede; hit; ttl=-2; detail=soft-timeout']),
    )
    gate.open()
    await happened('fill.committed', 2)
    expect((await ask(`${app.url}/a`)).body).toBe('run 2')
  })

  it('get a response after the client of the first request has left', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { arrivals, runs, start } = setUp(adapter, async (_seen, run, res) => {
      if (run > 1) return {}
      res.once('close', gone.open)
      await gate.opened
      return {}
    })
    await using app = await start()
    const first = leave(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    first.go()
    await gone.opened
    gate.open()
    const answers = await waiting
    // A layer outside may have set a cookie on a Koa response that was never sent. Koa 3 ends such
    // a response without its body. So the run is not stored.
    expect(bodies(answers)).toEqual(new Set([adapter.writesLast ? 'run 2' : 'run 1']))
    expect((await ask(`${app.url}/a`)).body).toBe(adapter.writesLast ? 'run 2' : 'run 1')
  })

  it('get a full response if the client of the first request leaves in the middle of a stream', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { arrivals, runs, start } = setUp(adapter, (_seen, run, res) => {
      if (run === 1) res.once('close', gone.open)
      async function* body() {
        yield 'first '
        await gate.opened
        yield 'last'
      }
      return { body: Readable.from(body()) }
    })
    await using app = await start()
    const first = leave(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    first.go()
    await gone.opened
    gate.open()
    const answers = await waiting
    expect(statuses(answers)).toEqual(new Set([200]))
    expect(bodies(answers)).toEqual(new Set(['first last']))
    expect(runs.count).toBe(2)
  })

  it.each(['req', 'res'] as const)(
    'continue with the next waiter if the first handler aborts when its client closes %s',
    async (watched) => {
      const { arrivals, runs, stampede, start } = setUp(adapter, (_seen, run, res) => {
        if (run > 1) return {}
        const left = watched === 'req' ? res.req : res
        return new Promise<never>((_, reject) => {
          left.once('close', () => reject(new Error('aborted: the client left')))
        })
      })
      await using app = await start()
      const first = leave(`${app.url}/a`)
      await runs.reached(1)
      const waiting = burst([`${app.url}/a`], 10)
      await arrivals.reached(11)
      first.go()
      const answers = await waiting
      expect(statuses(answers)).toEqual(new Set([200]))
      expect(bodies(answers)).toEqual(new Set(['run 2']))
      expect(statusOf(await ask(`${app.url}/a`))).toContain('hit')
      expect(runs.count).toBe(2)
      expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    },
  )

  it('run one handler after another while each leaving client aborts its own handler', async () => {
    const { arrivals, runs, start } = setUp(adapter, (_seen, run, res) => {
      if (run > 5) return {}
      return new Promise<never>((_, reject) => {
        res.once('close', () => reject(new Error('aborted: the client left')))
      })
    })
    await using app = await start()
    const leavers = []
    for (let n = 1; n <= 6; n++) {
      leavers.push(leave(`${app.url}/a`))
      await arrivals.reached(n)
    }
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(16)
    for (let run = 1; run <= 5; run++) {
      await runs.reached(run)
      leavers[run - 1]?.go()
      // The client reconnects at once, and waits behind the others.
      if (run === 1) leavers.push(leave(`${app.url}/a`))
    }
    const answers = await waiting
    expect(bodies(answers)).toEqual(new Set(['run 6']))
    expect(runs.count).toBe(6)
    for (const { go } of leavers) go()
  })

  /** Sends `half`, and then ends the body in the given way. */
  const broken = () => {
    async function* body() {
      yield 'half'
      await new Promise(setImmediate)
      throw new Error('the source broke')
    }
    return Readable.from(body())
  }
  it.each<[string, Handler]>([
    [
      'res.destroy()',
      (_seen, res) => {
        res.write('half', () => res.destroy())
        return undefined
      },
    ],
    ['an error of its stream', () => ({ body: broken() })],
    [
      'an error of its stream, with a length',
      () => ({ headers: { 'content-length': '9' }, body: broken() }),
    ],
    [
      'a pipeline that fails',
      (_seen, res) => {
        pipeline(broken(), res, () => {})
        return undefined
      },
    ],
  ])('get full responses if the first response is cut off by %s', async (name, cut) => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async (seen, run, res) => {
      if (run > 1) return { body: 'whole' }
      await gate.opened
      return cut(seen, res)
    })
    await using app = await start()
    const first = ask(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    gate.open()
    const answers = await waiting
    expect(statuses(answers)).toEqual(new Set([200]))
    expect(bodies(answers)).toEqual(new Set(['whole']))
    const leftHanging = adapter.leavesBrokenStreams && name.startsWith('an error')
    if (!leftHanging) expect(await first).toMatchObject({ status: 0, body: '' })
  })

  it('get the error of the first handler at once, without another run', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async (_seen, _run, res) => {
      await gate.opened
      res.setHeader('Cache-Control', 'public, max-age=60')
      throw new Error('the handler broke')
    })
    await using app = await start()
    const first = ask(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    await arrivals.reached(11)
    gate.open()
    expect((await first).status).toBe(500)
    const answers = await waiting
    expect(statuses(answers)).toEqual(new Set([500]))
    for (const { body, headers } of answers) {
      expect(JSON.parse(body)).toMatchObject({ code: 'origin-failed' })
      expect(headers).toMatchObject({ 'retry-after': '1', 'cache-control': 'no-store' })
    }
    expect(runs.count).toBe(1)
  })

  it('share a failure only among like requests, while an unlike request runs the handler', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async (seen, run) => {
      if (run === 1) await gate.opened
      // Throws a RangeError for an invalid language tag.
      new Intl.NumberFormat(seen.headers['accept-language'])
      return {}
    })
    await using app = await start()
    const odd = { headers: { 'accept-language': 'x_x' } }
    const good = { headers: { 'accept-language': 'en' } }
    const first = ask(`${app.url}/a`, odd)
    await runs.reached(1)
    const alike = burst([`${app.url}/a`], 3, odd)
    await arrivals.reached(4)
    const others = burst([`${app.url}/a`], 10, good)
    await arrivals.reached(14)
    gate.open()
    expect((await first).status).toBe(500)
    expect(statuses(await alike)).toEqual(new Set([500]))
    expect(bodies(await others)).toEqual(new Set(['run 2']))
    expect(statusOf(await ask(`${app.url}/a`, odd))).toContain('hit')
    expect(runs.count).toBe(2)
  })

  it('share the next response if one odd request gets a status of 4xx, for every status', async () => {
    const gates = new Map<string, ReturnType<typeof createGate>>()
    const { arrivals, runs, start } = setUp(adapter, async ({ headers, path }, run) => {
      if (headers['x-odd'] === undefined) return { body: `page ${path}` }
      await gates.get(path)?.opened
      if (run % 2 === 0) throw Object.assign(new Error('odd'), { status: 400 })
      return { status: Number(headers['x-odd']) }
    })
    await using app = await start()
    const odd = [...Array.from({ length: 19 }, (_, i) => 400 + i), 421, 422, 423, 424, 425, 426]
    odd.push(428, 429, 431, 451)
    for (const [i, status] of odd.entries()) {
      const path = `/${status}`
      const gate = createGate()
      gates.set(path, gate)
      const before = runs.count
      const first = ask(app.url + path, { headers: { 'x-odd': String(status) } })
      await runs.reached(before + 1)
      const waiting = burst([app.url + path], 9)
      await arrivals.reached(10 * (i + 1))
      gate.open()
      expect((await first).status).toBeGreaterThanOrEqual(400)
      const answers = await waiting
      expect([status, statuses(answers)]).toEqual([status, new Set([200])])
      expect([status, bodies(answers)]).toEqual([status, new Set([`page ${path}`])])
      expect([status, runs.count - before]).toEqual([status, 2])
    }
  })

  it('run a failing handler twice per back-off, for any number of unlike requests', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async (_seen, run) => {
      if (run === 1) await gate.opened
      throw new Error('the database is down')
    })
    await using app = await start()
    const asked = []
    for (let n = 1; n <= 10; n++) {
      asked.push(ask(`${app.url}/a`, { headers: { 'user-agent': `client ${n}` } }))
      await arrivals.reached(n)
    }
    gate.open()
    expect(statuses(await Promise.all(asked))).toEqual(new Set([500]))
    const late = await ask(`${app.url}/a`, { headers: { 'user-agent': 'late' } })
    expect(JSON.parse(late.body)).toMatchObject({ code: 'origin-failed' })
    expect(runs.count).toBe(2)
  })

  it('each run the handler at once if the first response is too large to store', async () => {
    const gate = createGate()
    const part = 'x'.repeat(3_000)
    const { arrivals, runs, start } = setUp(adapter, (_seen, run) => {
      async function* body() {
        yield part
        yield part
        if (run === 1) await gate.opened
        yield 'end'
      }
      return { body: Readable.from(body()) }
    })
    await using app = await start({ maxBodyBytes: 5_000 })
    const first = ask(`${app.url}/a`)
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 10)
    // The first response has not ended yet, and these clients have complete ones.
    expect(bodies(await waiting)).toEqual(new Set([`${part}${part}end`]))
    await arrivals.reached(11)
    expect(runs.count).toBe(11)
    gate.open()
    expect((await first).body).toBe(`${part}${part}end`)
    expect((await ask(`${app.url}/a`)).body).toBe(`${part}${part}end`)
    expect(runs.count).toBe(12)
  })

  const LARGE = Buffer.alloc(16 * 1024 * 1024, 'stampede ')
  it.each([
    ['at once', () => LARGE],
    ['as a stream', () => Readable.from(chunksOf(LARGE))],
  ])('get responses if the first client never reads a large body, sent %s', async (_, body) => {
    const { arrivals, runs, start } = setUp(adapter, () => ({ body: body() }))
    await using app = await start({ maxBodyBytes: 32 * 1024 * 1024 })
    const first = connect(Number(new URL(app.url).port), '127.0.0.1').on('error', () => {})
    // A request that is equal to those of the waiters.
    first.write(get('/a').replace('shop.test', new URL(app.url).host))
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 3)
    await arrivals.reached(4)
    const answers = await waiting
    first.destroy()
    expect(answers.map(({ body: received }) => received.length)).toEqual(
      Array(3).fill(LARGE.length),
    )
    expect(runs.count).toBe(1)
  })

  it('keep their own async context, and a refresh has that of the request that started it', async () => {
    const context = new AsyncLocalStorage<string>()
    const entered: Array<string | undefined> = []
    const ran: Array<string | undefined> = []
    const finished: Array<[string, string | undefined]> = []
    const gate = createGate()
    const { arrivals, clock, happened, start } = setUp(
      adapter,
      async () => {
        ran.push(context.getStore())
        await gate.opened
        return {}
      },
      {
        outside(res, next) {
          entered.push(context.getStore())
          const own = String(res.req.headers['x-id'])
          return context.run(own, async () => {
            const ended = () => finished.push([own, context.getStore()])
            // Such a framework writes after all layers have returned, outside their asynchronous
            // contexts.
            const last = adapter.writesLast && adapter.refreshesOutside
            if (!last) res.once('finish', ended)
            await next()
            if (last) ended()
          })
        },
      },
    )
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    const asked = Array.from({ length: 5 }, (_, i) =>
      ask(`${app.url}/a`, { headers: { 'x-id': `request ${i}` } }),
    )
    await arrivals.reached(5)
    gate.open()
    await Promise.all(asked)
    await clock.advance(11_000)
    await ask(`${app.url}/a`, { headers: { 'x-id': 'stale' } })
    await happened('fill.committed', 2)
    for (const [own, seen] of finished) expect(seen).toBe(own)
    expect(new Set(finished.map(([own]) => own)).size).toBe(6)
    const ofRefresh = adapter.refreshesOutside ? ['stale'] : []
    expect(entered).toEqual([...Array(6).fill(undefined), ...ofRefresh])
    expect(ran).toEqual([expect.stringMatching(/^request \d$/), 'stale'])
  })

  it('run in their own async context if they lead after the first client left', async () => {
    const context = new AsyncLocalStorage<string>()
    const ran: unknown[] = []
    const { arrivals, runs, start } = setUp(
      adapter,
      (_seen, run, res) => {
        ran.push(context.getStore())
        if (run > 1) return {}
        return new Promise<never>((_, reject) => {
          res.once('close', () => reject(new Error('aborted: the client left')))
        })
      },
      { outside: (res, next) => context.run(String(res.req.headers['x-id']), next) },
    )
    await using app = await start()
    const first = leave(`${app.url}/a`, { 'x-id': 'first' })
    await runs.reached(1)
    const second = ask(`${app.url}/a`, { headers: { 'x-id': 'second' } })
    await arrivals.reached(2)
    first.go()
    await second
    expect(ran).toEqual(['first', 'second'])
  })

  it('get a response while the cache closes, and leave no timer', async () => {
    const gate = createGate()
    const { arrivals, clock, runs, stampede, start } = setUp(adapter, async () => {
      await gate.opened
      return {}
    })
    const app = await start({ staleWhileRevalidateMs: 60_000 })
    const waiting = burst([`${app.url}/a`], 20)
    await arrivals.reached(20)
    // The last request may pass asynchronous layers between the arrival and the cache.
    await new Promise((resolve) => setImmediate(resolve))
    const closed = stampede.close()
    gate.open()
    const answers = await waiting
    // Polls every 10 ms for work that is still under way.
    await clock.advance(10)
    await closed
    expect(statuses(answers)).toEqual(new Set([200]))
    expect(runs.count).toBe(1)
    expect(clock.timers).toBe(0)
    await app[Symbol.asyncDispose]()
  })
}

function chunksOf(bytes: Buffer): Buffer[] {
  const size = 64 * 1024
  return Array.from({ length: bytes.length / size }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )
}
