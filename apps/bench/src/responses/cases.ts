// All cases of the comparison, in the order of the table.
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Got } from '../lib/http.ts'
import { ok, unless, type Verdict, wrong } from '../lib/verdict.ts'
import type { TableCase } from '../lib/verdict-table.ts'
import type { Reply } from './peers.ts'
import type { Handler, Sent, Stage } from './stage.ts'

export interface Case extends TableCase {
  readonly run: (stage: Stage) => Promise<Verdict>
}

/** Long enough for all requests to arrive during the first run, also on a busy machine. */
const SLOW_MS = 1_000
/** Long enough for a write to Redis that no response waits for. */
const SETTLED_MS = 100

const slow: Handler = async ({ run }) => {
  await sleep(SLOW_MS)
  return { body: { run } }
}

const times = <T>(count: number, make: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, make))

const oneRun = (runs: number): Verdict => (runs > 1 ? wrong(`${runs} runs`) : ok(`${runs} run`))

const stampedes: readonly Case[] = [
  {
    id: 'burst',
    title: '100 requests at once for a cold page: the handler runs once',
    async run({ open, runs }) {
      const site = await open(slow)
      await times(100, () => site.get())
      return oneRun(runs())
    },
  },
  {
    id: 'fleet',
    title: '50 requests at each of two servers at once: the handler runs once',
    async run({ open, runs }) {
      const sites = [await open(slow), await open(slow)]
      await sleep(SETTLED_MS)
      await Promise.all(sites.map((site) => times(50, () => site.get())))
      return oneRun(runs())
    },
  },
  {
    id: 'expiry',
    title: 'the entry expires, then 50 requests at once: the handler runs once more',
    async run({ open, runs }) {
      const site = await open(slow, 1_000)
      await site.get()
      await sleep(1_300)
      const before = runs()
      await times(50, () => site.get())
      return oneRun(runs() - before)
    },
  },
  {
    id: 'purge-during-run',
    title: 'a purge while the handler runs: later requests do not get the old page',
    async run({ open }) {
      let price = 'old'
      const site = await open(async () => {
        const read = price
        await sleep(SLOW_MS)
        return { body: { price: read } }
      })
      const running = site.get()
      await sleep(SLOW_MS / 2)
      price = 'new'
      await site.purge()
      await running
      await sleep(SETTLED_MS)
      const { body } = await site.get()
      return String(body).includes('new') ? ok() : wrong('the next request got the old page')
    },
  },
  {
    id: 'redis-frozen',
    title: 'Redis freezes: a request for a cold page gets its response within 2 s',
    async run({ open, freezeRedis }) {
      const site = await open(() => ({ body: { ok: true } }))
      await sleep(SETTLED_MS)
      freezeRedis()
      const { status, ms } = await site.get({ timeoutMs: 2_000 })
      return status === 200 ? ok(`${Math.round(ms)} ms`) : wrong('no response in 2 s')
    },
  },
]

interface Both {
  readonly first: Got
  readonly second: Got
  readonly runs: number
}

/** A case with two requests, one after another. */
const pair = (
  id: string,
  title: string,
  handler: Handler,
  [one, other]: readonly [Sent, Sent],
  judge: (both: Both) => Verdict,
): Case => ({
  id,
  title,
  async run({ open, runs }) {
    const site = await open(handler)
    const first = await site.get(one)
    await sleep(SETTLED_MS)
    return judge({ first, second: await site.get(other), runs: runs() })
  },
})

/** Two requests with different values of a field must get different pages. */
const own = (
  id: string,
  title: string,
  field: string,
  values: readonly [string, string],
  more: Record<string, string> = {},
): Case =>
  pair(
    id,
    title,
    ({ headers }) => ({
      headers: more,
      body: { for: headers[field.toLowerCase()] ?? 'none' },
    }),
    [{ headers: { [field]: values[0] } }, { headers: { [field]: values[1] } }],
    ({ second: { body } }) =>
      String(body).includes(values[1]) ? ok() : wrong(`the second client got ${body}`),
  )

/** The next client must not get such a response. */
const notShared = (id: string, what: string, headers: Record<string, string>, status = 200): Case =>
  pair(
    id,
    `${what} is not served to the next client`,
    ({ run }) => ({ status, headers, body: { run } }),
    [{}, {}],
    ({ second, runs }) => {
      const cookie = second.headers['set-cookie'] ? ', and its cookie' : ''
      return runs > 1
        ? ok()
        : wrong(`the next client got the stored response with status ${second.status}${cookie}`)
    },
  )

const privacy: readonly Case[] = [
  notShared('set-cookie', 'a response with Set-Cookie', { 'Set-Cookie': 'session=alice' }),
  notShared('private', '`Cache-Control: private`', { 'Cache-Control': 'private' }),
  notShared('no-store', '`Cache-Control: no-store`', { 'Cache-Control': 'no-store' }),
  own(
    ...(['authorization', 'clients with different `Authorization` get their own pages'] as const),
    ...(['Authorization', ['Bearer alice', 'Bearer bob']] as const),
  ),
  own(
    ...(['cookie', 'clients with different `Cookie` get their own pages'] as const),
    ...(['Cookie', ['session=alice', 'session=bob']] as const),
  ),
  own(
    ...(['vary', 'with `Vary: Accept-Language`, each language gets its own page'] as const),
    ...(['Accept-Language', ['de', 'fr'], { Vary: 'Accept-Language' }] as const),
  ),
  own('host', 'two hosts get their own pages', 'Host', ['a.shop.test', 'b.shop.test']),
  notShared('unauthorized', 'a 401', {}, 401),
  notShared('server-error', 'a 500', {}, 500),
]

/** The second response must be that of a hit, with the same status, fields and bytes. */
const replayed = (id: string, title: string, reply: () => Reply, fields: string[] = []): Case =>
  pair(id, title, reply, [{}, {}], ({ first, second, runs }) => {
    const lost = fields.filter((name) => first.headers[name] !== second.headers[name])
    return unless([
      [runs !== 1, 'the second request ran the handler again'],
      [second.status !== first.status, `status ${second.status} instead of ${first.status}`],
      [lost.length > 0, `without ${lost.join(', ')}`],
      [!second.body.equals(first.body), 'another body'],
    ])
  })

const bytes = randomBytes(4_096)
const html = '<p>'.padEnd(40_000, 'Sencha ')
const page: Reply = { headers: { ETag: '"v1"', 'Content-Type': 'text/html' }, body: html }
const moved = { status: 301, headers: { Location: '/new' }, body: 'Moved' }
const linked = {
  Link: '</style.css>; rel=preload',
  'Content-Language': 'de',
  'Content-Disposition': 'inline',
}
const partial: Reply = {
  status: 206,
  headers: { 'Content-Range': `bytes 0-3/${html.length}`, 'Content-Type': 'text/html' },
  body: html.slice(0, 4),
}
const range: Sent = { headers: { Range: 'bytes=0-3' } }
const condition: Sent = { headers: { 'If-None-Match': '"v1"' } }

const isWhole = ({ status, body }: Got): boolean => status === 200 && body.length === html.length
const inWords = ({ status, body }: Got): string => `${status}, ${body.length} bytes`

const fidelity: readonly Case[] = [
  replayed(
    'fields',
    'the fields Link, Content-Language and Content-Disposition are on a hit, too',
    () => ({ headers: linked, body: { ok: true } }),
    ['link', 'content-language', 'content-disposition'],
  ),
  pair(
    'redirect',
    'the second client of a 301 gets a 301 with its Location',
    () => moved,
    [{}, {}],
    ({ second }) =>
      unless([
        [second.status !== 301, `status ${second.status}`],
        [second.headers.location !== '/new', 'without Location'],
      ]),
  ),
  replayed('binary', '4 kB of random bytes are stored, and a hit has the same bytes', () => ({
    headers: { 'Content-Type': 'image/png' },
    body: bytes,
  })),
  replayed('stream', 'a stream is stored, and a hit has the same bytes', () => ({
    headers: { 'Content-Type': 'text/html' },
    body: Readable.from([html.slice(0, 9_000), html.slice(9_000)].map((part) => Buffer.from(part))),
  })),
  pair(
    'head-first',
    'after a `HEAD` for a cold page, a `GET` gets the body',
    () => page,
    [{ method: 'HEAD' }, {}],
    ({ second: { body } }) =>
      body.length === html.length ? ok() : wrong(`a body of ${body.length} bytes`),
  ),
  pair(
    'post',
    'a `POST` to the path of a stored page runs the handler',
    ({ method }) => ({ body: { method } }),
    [{}, { method: 'POST' }],
    ({ runs }) => (runs === 2 ? ok() : wrong('the POST got the stored page of the GET')),
  ),
  pair(
    'not-modified',
    'a hit whose ETag the client has is a 304 without a body',
    () => page,
    [{}, condition],
    ({ second: { status }, runs }) =>
      unless([
        [runs !== 1, 'the second request ran the handler again'],
        [status !== 304, `status ${status}`],
      ]),
  ),
  pair(
    'condition-first',
    'the first client sends the ETag of the page: the next client gets the whole page from the cache',
    () => page,
    [condition, {}],
    ({ second, runs }) =>
      unless([
        [!isWhole(second), inWords(second)],
        [runs > 1, 'the handler ran again'],
      ]),
  ),
  pair(
    'range-first',
    'the first client asks for a range and the app sends 206: the next client gets the whole page',
    ({ headers }) => (headers.range === undefined ? page : partial),
    [range, {}],
    ({ second }) => (isWhole(second) ? ok() : wrong(inWords(second))),
  ),
  pair(
    'range',
    'a hit with `Range: bytes=0-3` is a 206 with four bytes',
    () => page,
    [{}, range],
    ({ second, runs }) =>
      unless([
        [runs !== 1, 'the second request ran the handler again'],
        [second.status !== 206 || second.body.length !== 4, inWords(second)],
      ]),
  ),
]

export const cases: readonly Case[] = [...stampedes, ...privacy, ...fidelity]
