// Cases about the response that a hit sends, compared with the first one.
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { ok, unless, wrong } from '../../verdicts/verdict.ts'
import type { Case } from '../case.ts'
import type { Got } from '../client.ts'
import type { Handler, Reply } from '../peer.ts'
import type { Stage } from '../stage.ts'
import { SETTLED_MS } from './stampedes.ts'

async function twice({ open }: Stage, handler: Handler): Promise<[Got, Got]> {
  const site = await open(handler)
  const first = await site.get()
  await sleep(SETTLED_MS)
  return [first, await site.get()]
}

/** The second response must be that of a hit, with the same status, fields and bytes. */
function replayed(id: string, title: string, reply: () => Reply, fields: string[] = []): Case {
  return {
    id,
    title,
    async run(stage) {
      const [first, second] = await twice(stage, reply)
      const lost = fields.filter((name) => first.headers[name] !== second.headers[name])
      return unless([
        [stage.runs() !== 1, 'the second request ran the handler again'],
        [second.status !== first.status, `status ${second.status} instead of ${first.status}`],
        [lost.length > 0, `without ${lost.join(', ')}`],
        [!second.body.equals(first.body), 'another body'],
      ])
    },
  }
}

const bytes = randomBytes(4_096)
const html = '<p>'.padEnd(40_000, 'Sencha ')
const page: Reply = { headers: { ETag: '"v1"', 'Content-Type': 'text/html' }, body: html }

export const fidelity: readonly Case[] = [
  replayed(
    'fields',
    'the fields Link, Content-Language and Content-Disposition are on a hit, too',
    () => ({
      headers: {
        Link: '</style.css>; rel=preload',
        'Content-Language': 'de',
        'Content-Disposition': 'inline',
      },
      body: { ok: true },
    }),
    ['link', 'content-language', 'content-disposition'],
  ),
  {
    id: 'redirect',
    title: 'the second client of a 301 gets a 301 with its Location',
    async run(stage) {
      const reply = { status: 301, headers: { Location: '/new' }, body: 'Moved' }
      const [, second] = await twice(stage, () => reply)
      return unless([
        [second.status !== 301, `status ${second.status}`],
        [second.headers.location !== '/new', 'without Location'],
      ])
    },
  },
  replayed('binary', '4 kB of random bytes are stored, and a hit has the same bytes', () => ({
    headers: { 'Content-Type': 'image/png' },
    body: bytes,
  })),
  replayed('stream', 'a stream is stored, and a hit has the same bytes', () => ({
    headers: { 'Content-Type': 'text/html' },
    body: Readable.from([html.slice(0, 9_000), html.slice(9_000)].map((part) => Buffer.from(part))),
  })),
  {
    id: 'head-first',
    title: 'after a `HEAD` for a cold page, a `GET` gets the body',
    async run({ open }) {
      const site = await open(() => page)
      await site.get({ method: 'HEAD' })
      await sleep(SETTLED_MS)
      const { body } = await site.get()
      return body.length === html.length ? ok() : wrong(`a body of ${body.length} bytes`)
    },
  },
  {
    id: 'post',
    title: 'a `POST` to the path of a stored page runs the handler',
    async run({ open, runs }) {
      const site = await open(({ method }) => ({ body: { method } }))
      await site.get()
      await sleep(SETTLED_MS)
      await site.get({ method: 'POST' })
      return runs() === 2 ? ok() : wrong('the POST got the stored page of the GET')
    },
  },
  {
    id: 'not-modified',
    title: 'a hit whose ETag the client has is a 304 without a body',
    async run({ open, runs }) {
      const site = await open(() => page)
      await site.get()
      await sleep(SETTLED_MS)
      const { status } = await site.get({ headers: { 'If-None-Match': '"v1"' } })
      return unless([
        [runs() !== 1, 'the second request ran the handler again'],
        [status !== 304, `status ${status}`],
      ])
    },
  },
  {
    id: 'condition-first',
    title:
      'the first client sends the ETag of the page: the next client gets the whole page from the cache',
    async run({ open, runs }) {
      const site = await open(() => page)
      await site.get({ headers: { 'If-None-Match': '"v1"' } })
      await sleep(SETTLED_MS)
      const { status, body } = await site.get()
      return unless([
        [status !== 200 || body.length !== html.length, `${status}, ${body.length} bytes`],
        [runs() > 1, 'the handler ran again'],
      ])
    },
  },
  {
    id: 'range-first',
    title:
      'the first client asks for a range and the app sends 206: the next client gets the whole page',
    async run({ open }) {
      const site = await open(({ headers }) =>
        headers.range === undefined
          ? page
          : {
              status: 206,
              headers: { 'Content-Range': `bytes 0-3/${html.length}`, 'Content-Type': 'text/html' },
              body: html.slice(0, 4),
            },
      )
      await site.get({ headers: { Range: 'bytes=0-3' } })
      await sleep(SETTLED_MS)
      const { status, body } = await site.get()
      return unless([
        [status !== 200 || body.length !== html.length, `${status}, ${body.length} bytes`],
      ])
    },
  },
  {
    id: 'range',
    title: 'a hit with `Range: bytes=0-3` is a 206 with four bytes',
    async run({ open, runs }) {
      const site = await open(() => page)
      await site.get()
      await sleep(SETTLED_MS)
      const { status, body } = await site.get({ headers: { Range: 'bytes=0-3' } })
      return unless([
        [runs() !== 1, 'the second request ran the handler again'],
        [status !== 206 || body.length !== 4, `${status}, ${body.length} bytes`],
      ])
    },
  },
]
