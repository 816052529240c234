// Cases: layers in front of the cache that change a response body in place, on a miss and on a hit.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask, burst } from '../requests.ts'
import type { CacheAdapter, Outside } from './adapter.ts'
import { setUp } from './bench.ts'

/** Reverses each chunk in place. Layers that encrypt or mask also change chunks in place. */
const reversing: Outside = (res, next) => {
  for (const method of ['write', 'end'] as const) wrap(res, method)
  return next()
}

function wrap(res: ServerResponse, method: 'write' | 'end'): void {
  const original = res[method]
  const wrapped = (...args: unknown[]) => {
    if (Buffer.isBuffer(args[0])) args[0].reverse()
    return Reflect.apply(original, res, args)
  }
  Object.assign(res, { [method]: wrapped })
}

const bodiesOf = (answers: ReadonlyArray<{ readonly body: string }>) =>
  answers.map(({ body }) => body)

export function layerCases(adapter: CacheAdapter): void {
  it.each([
    ['at once', () => Buffer.from('abc')],
    ['as a stream', () => Readable.from([Buffer.from('abc')])],
  ])('cannot change the entry by changing a chunk of a response sent %s', async (_, body) => {
    const { clock, happened, runs, start } = setUp(adapter, () => ({ body: body() }), {
      outside: reversing,
    })
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    const miss = await ask(`${app.url}/a`)
    await happened('fill.committed')
    const hits = [await ask(`${app.url}/a`), await ask(`${app.url}/a`)]
    await clock.advance(11_000)
    const stale = await ask(`${app.url}/a`)
    await happened('fill.committed', 2)
    const next = [await ask(`${app.url}/a`), await ask(`${app.url}/a`)]
    expect(bodiesOf([miss, ...hits, stale, ...next])).toEqual(Array(6).fill('cba'))
    expect(runs.count).toBe(2)
  })

  it('cannot change the entry by changing the bytes of a range', async () => {
    const { happened, start } = setUp(adapter, () => ({ body: Buffer.from('abcdef') }), {
      outside: reversing,
    })
    await using app = await start()
    await ask(`${app.url}/a`)
    await happened('fill.committed')
    const part = () => ask(`${app.url}/a`, { headers: { range: 'bytes=0-2' } })
    expect(bodiesOf([await part(), await part()])).toEqual(['cba', 'cba'])
    expect((await ask(`${app.url}/a`)).body).toBe('fedcba')
  })

  it('cannot change the responses of waiters by changing a chunk', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(
      adapter,
      () => {
        async function* body() {
          yield Buffer.from('abc')
          await gate.opened
          yield Buffer.from('xyz')
        }
        return { body: Readable.from(body()) }
      },
      { outside: reversing },
    )
    await using app = await start()
    const asked = burst([`${app.url}/a`], 6)
    await arrivals.reached(6)
    gate.open()
    // Waiters that get the whole body at once get one chunk.
    const bodies = bodiesOf(await asked)
    expect(bodies.filter((body) => body === 'cbazyx' || body === 'zyxcba')).toHaveLength(6)
    expect((await ask(`${app.url}/a`)).body).toBe('zyxcba')
    expect(runs.count).toBe(1)
  })
}

/** Fields that a layer may set for one request, with a value that the handler may set too. */
const EQUAL: Readonly<Record<string, string>> = {
  'X-Frame-Options': 'DENY',
  'Content-Security-Policy': "default-src 'self'",
  'Cache-Control': 'max-age=30',
  Vary: 'X-Kind',
  ETag: '"v1"',
  Link: '</style.css>; rel=preload',
  'Access-Control-Allow-Origin': '*',
  'X-Content-Type-Options': 'nosniff',
  'Content-Type': 'text/x-own',
}

/** Sets `fields` for the first request only, and a number for each request. */
function layerOfFirst(fields: Readonly<Record<string, string>>): Outside {
  let requests = 0
  return (res, next) => {
    requests += 1
    if (requests === 1) {
      for (const [name, value] of Object.entries(fields)) res.setHeader(name, value)
    }
    res.setHeader('X-Request-Id', `r${requests}`)
    return next()
  }
}

export function fieldCases(adapter: CacheAdapter): void {
  it.each(Object.entries(EQUAL))(
    'keep the field %s of the handler if a layer set it equal for the first request',
    async (name, value) => {
      const answer = { headers: { [name]: value }, body: 'page' }
      const outside = layerOfFirst({ [name]: value })
      const { happened, start } = setUp(adapter, () => answer, { outside })
      await using app = await start()
      const miss = await ask(`${app.url}/a`)
      await happened('fill.committed')
      const hit = await ask(`${app.url}/a`)
      expect(hit.headers['cache-status']).toContain('; hit')
      const key = name.toLowerCase()
      expect([miss.headers[key], hit.headers[key]]).toEqual([value, value])
      expect([miss, hit].map(({ headers }) => headers['x-request-id'])).toEqual(['r1', 'r2'])
    },
  )

  it.each(Object.keys(EQUAL).filter((name) => name !== 'Content-Type'))(
    'do not store the field %s that only a layer has set',
    async (name) => {
      const outside = layerOfFirst({ [name]: EQUAL[name] ?? '' })
      const { happened, start } = setUp(adapter, () => ({ body: 'page' }), { outside })
      await using app = await start()
      await ask(`${app.url}/a`)
      await happened('fill.committed')
      const hit = await ask(`${app.url}/a`)
      expect(hit.headers['cache-status']).toContain('; hit')
      expect(hit.headers[name.toLowerCase()]).not.toBe(EQUAL[name])
    },
  )
}
