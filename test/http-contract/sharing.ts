// One run and many clients: who waits, for how long, and what each of them gets when something goes wrong.
import { AsyncLocalStorage } from 'node:async_hooks'
import { connect } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { expect, it } from 'vitest'
import type { Framework, Handler } from '../harness/apps.ts'
import { type Answer, ask, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { get, leave, setUp, statusOf } from './bench.ts'

const bodies = (answers: readonly Answer[]): Set<string> => new Set(answers.map(({ body }) => body))
const statuses = (answers: readonly Answer[]): Set<number> =>
  new Set(answers.map(({ status }) => status))

export function sharingCases(framework: Framework): void {
  const isKoa = framework.name.includes('Koa')

  it('runs fifty requests for what may not be shared in parallel, the first time and the next', async () => {
    const gates = [createGate(), createGate()]
    const { runs, start } = setUp(framework, async (_seen, run) => {
      // The first one shows that it is not to be shared; the others stand at the gate together.
      if (run > 1) await gates[run <= 50 ? 0 : 1]?.opened
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

  it('lets those who wait for a handler that never answers run their own when their time is up', async () => {
    const { arrivals, clock, runs, start } = setUp(framework, (_seen, run) =>
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
    go()
  })

  it('answers the first one too with what is kept for errors when the handler is late', async () => {
    const gate = createGate()
    const { arrivals, clock, happened, runs, start } = setUp(framework, async (_seen, run) => {
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

  it('answers all who wait when the client of the first one has gone', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { arrivals, runs, start } = setUp(framework, async (_seen, run, res) => {
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
    // A Koa response that was never begun may have got a cookie from a layer outside, and Koa 3 ends it without its body: that run
    // is not kept.
    expect(bodies(answers)).toEqual(new Set([isKoa ? 'run 2' : 'run 1']))
    expect((await ask(`${app.url}/a`)).body).toBe(isKoa ? 'run 2' : 'run 1')
  })

  it('answers all who wait when the client of the first one goes in the middle of a stream', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { arrivals, runs, start } = setUp(framework, (_seen, run, res) => {
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

  /** `half`, and then the end of it. */
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
  ])('answers all who wait, whole, when the first answer is cut off by %s', async (name, cut) => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(framework, async (seen, run, res) => {
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
    // Koa 2 leaves the client of a stream that fails hanging, with a cache or without.
    const leftHanging = framework.name === 'Koa 2' && name.startsWith('an error')
    if (!leftHanging) expect(await first).toMatchObject({ status: 0, body: '' })
  })

  it('tells all who wait at once that the first one threw, and asks nobody else', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(framework, async (_seen, _run, res) => {
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

  it('sends what is too large to its client, and lets those who wait run their own at once', async () => {
    const gate = createGate()
    const part = 'x'.repeat(3_000)
    const { arrivals, runs, start } = setUp(framework, (_seen, run) => {
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
    // The first one has not ended yet, and they have all they asked for.
    expect(bodies(await waiting)).toEqual(new Set([`${part}${part}end`]))
    await arrivals.reached(11)
    expect(runs.count).toBe(11)
    gate.open()
    expect((await first).body).toBe(`${part}${part}end`)
    expect(statusOf(await ask(`${app.url}/a`))).toContain('hit-for-pass')
  })

  const LARGE = Buffer.alloc(16 * 1024 * 1024, 'stampede ')
  it.each([
    ['at once', () => LARGE],
    ['as a stream', () => Readable.from(chunksOf(LARGE))],
  ])(
    'answers all who wait when the first client never reads a large body, sent %s',
    async (_, body) => {
      const { arrivals, runs, start } = setUp(framework, () => ({ body: body() }))
      await using app = await start({ maxBodyBytes: 32 * 1024 * 1024 })
      const first = connect(Number(new URL(app.url).port), '127.0.0.1').on('error', () => {})
      // As the others will ask for it.
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
    },
  )

  it('lets each who waits keep the context of its own request, and a refresh begins without one', async () => {
    const context = new AsyncLocalStorage<string>()
    const [entered, finished]: [Array<string | undefined>, Array<[string, string | undefined]>] = [
      [],
      [],
    ]
    const gate = createGate()
    const { arrivals, clock, happened, start } = setUp(
      framework,
      async () => {
        await gate.opened
        return {}
      },
      {
        outside(res, next) {
          entered.push(context.getStore())
          const own = String(res.req.headers['x-id'])
          return context.run(own, async () => {
            const ended = () => finished.push([own, context.getStore()])
            // Koa answers when all middlewares have returned, in nobody's context; they return in their own.
            const inKoa = isKoa && framework.refreshesOutside
            if (!inKoa) res.once('finish', ended)
            await next()
            if (inKoa) ended()
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
    expect(entered).toEqual(Array(framework.refreshesOutside ? 7 : 6).fill(undefined))
  })

  it('answers all who wait while it is closed, and leaves no timer behind', async () => {
    const gate = createGate()
    const { arrivals, clock, runs, stampede, start } = setUp(framework, async () => {
      await gate.opened
      return {}
    })
    const app = await start({ staleWhileRevalidateMs: 60_000 })
    const waiting = burst([`${app.url}/a`], 20)
    await arrivals.reached(20)
    const closed = stampede.close()
    gate.open()
    const answers = await waiting
    // It looks every 10 ms for what is still going on.
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
