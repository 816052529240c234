// Cases about responses that are for one client, one language or one host.
import { setTimeout as sleep } from 'node:timers/promises'
import { ok, wrong } from '../../verdicts/verdict.ts'
import type { Case } from '../case.ts'
import type { Handler } from '../peer.ts'
import { SETTLED_MS } from './stampedes.ts'

/** Two requests with different values of a field must get different pages. */
function own(id: string, title: string, field: string, values: [string, string], more = {}): Case {
  return {
    id,
    title,
    async run({ open }) {
      const handler: Handler = ({ headers }) => ({
        headers: more,
        body: { for: headers[field.toLowerCase()] ?? 'none' },
      })
      const site = await open(handler)
      await site.get({ headers: { [field]: values[0] } })
      await sleep(SETTLED_MS)
      const { body } = await site.get({ headers: { [field]: values[1] } })
      return String(body).includes(values[1]) ? ok() : wrong(`the second client got ${body}`)
    },
  }
}

/** The next client must not get a response with these fields. */
function notShared(id: string, title: string, fields: Record<string, string>, status = 200): Case {
  return {
    id,
    title,
    async run({ open, runs }) {
      const site = await open(({ run }) => ({ status, headers: fields, body: { run } }))
      await site.get()
      await sleep(SETTLED_MS)
      const { headers, status: second } = await site.get()
      const cookie = headers['set-cookie'] ? ', and its cookie' : ''
      return runs() > 1
        ? ok()
        : wrong(`the next client got the stored response with status ${second}${cookie}`)
    },
  }
}

export const privacy: readonly Case[] = [
  notShared('set-cookie', 'a response with Set-Cookie is not served to the next client', {
    'Set-Cookie': 'session=alice',
  }),
  notShared('private', '`Cache-Control: private` is not served to the next client', {
    'Cache-Control': 'private',
  }),
  notShared('no-store', '`Cache-Control: no-store` is not served to the next client', {
    'Cache-Control': 'no-store',
  }),
  own(
    'authorization',
    'clients with different `Authorization` get their own pages',
    'Authorization',
    ['Bearer alice', 'Bearer bob'],
  ),
  own('cookie', 'clients with different `Cookie` get their own pages', 'Cookie', [
    'session=alice',
    'session=bob',
  ]),
  own(
    'vary',
    'with `Vary: Accept-Language`, each language gets its own page',
    'Accept-Language',
    ['de', 'fr'],
    { Vary: 'Accept-Language' },
  ),
  own('host', 'two hosts get their own pages', 'Host', ['a.shop.test', 'b.shop.test']),
  notShared('unauthorized', 'a 401 is not served to the next client', {}, 401),
  notShared('server-error', 'a 500 is not served to the next client', {}, 500),
]
