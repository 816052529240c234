// Handlers under attack, by name: a test names the one that a member of the fleet serves.
// @ts-check
import { PassThrough } from 'node:stream'
import { KEY_TARGETS } from './key-targets.mjs'

/** How often each handler ran in this process. @type {Map<string, number>} */
export const runs = new Map()

/** @type {Record<string, import('./apps.mjs').Target>} */
export const TARGETS = {
  /** Prints a forwarded host, as apps do in links and scripts. */
  'prints X-Forwarded-Host': {
    handler: (req) => ({ body: `<script src="//${req.headers['x-forwarded-host']}/app.js">` }),
  },
  /**
   * Aborts its work when its client leaves, as guides recommend. With X-Slow, others can wait for
   * it.
   */
  'aborts on close': {
    handler: (req, res) =>
      new Promise((resolve, reject) => {
        const ms = req.headers['x-slow'] === undefined ? 50 : 60_000
        const timer = setTimeout(resolve, ms, { body: 'page' })
        res.once('close', () => {
          clearTimeout(timer)
          reject(new Error('aborted: the client left'))
        })
      }),
  },
  /** Throws for an invalid language tag, as Intl does. */
  'formats for a language': {
    async handler(req) {
      await new Promise((resolve) => setTimeout(resolve, 800))
      const { locale } = new Intl.NumberFormat(req.headers['accept-language']).resolvedOptions()
      return { body: `for ${locale}`, headers: { 'content-language': locale } }
    },
  },
  /** Responds with the status that a header names. The header is in no key. */
  'answers with the status of X-Odd': {
    async handler(req) {
      await new Promise((resolve) => setTimeout(resolve, 800))
      return { status: Number(req.headers['x-odd'] ?? 200), body: 'page' }
    },
  },
  /** Is stale after 300 ms. For a request with X-Odd it fails with that status, or throws. */
  'fails for X-Odd': {
    options: { ttlMs: 300, staleWhileRevalidateMs: 60_000 },
    handler(req) {
      const odd = req.headers['x-odd']
      if (odd === undefined) return { body: `page ${performance.now()}` }
      const status = Number(String(odd).split(' ')[0])
      if (Number.isNaN(status)) throw new Error('odd')
      return { status }
    },
  },
  /** Starts a session if a header says so. The header is in no key. */
  'sets a cookie for X-Start': {
    handler: (req) => ({
      body: 'page',
      headers: req.headers['x-start'] ? { 'set-cookie': 'session=1' } : {},
    }),
  },
  /** Varies by a header that a client can make up. */
  'varies by X-Made-Up': {
    handler: (req) => ({ body: `for ${req.headers['x-made-up']}`, headers: { vary: 'X-Made-Up' } }),
  },
  /** A page with a validator. Under /own it sets a cookie, and so is personal. */
  'serves ten digits': {
    handler: (req) => ({
      headers: {
        etag: '"v1"',
        'accept-ranges': 'bytes',
        'content-length': '10',
        ...(req.url?.startsWith('/own') && { 'set-cookie': 'id=1' }),
      },
      body: '0123456789',
    }),
  },
  /** Greets the caller that the cookie names. */
  'greets the cookie': { handler: (req) => ({ body: `hello ${req.headers.cookie}` }) },
  /**
   * Sets the response field that the path names. Its value is the caller's, from a field in no key.
   */
  'answers with a field for its caller': {
    handler: (req) => ({
      headers: { [String(req.url).slice(1)]: `for ${req.headers['x-caller']}` },
      body: `hello ${req.headers['x-caller']}`,
    }),
  },
  /** Redirects to its canonical URL: host in lower case, parameters sorted, no bare `?`. */
  'redirects to its canonical URL': {
    handler(req) {
      const { pathname, searchParams } = new URL(String(req.url), 'http://shop.test')
      searchParams.sort()
      const canonical = searchParams.size > 0 ? `${pathname}?${searchParams}` : pathname
      const asked = `http://${req.headers.host}${req.url}`
      if (asked === `http://shop.test${canonical}`) return { body: 'the page' }
      return { status: 301, headers: { Location: `http://shop.test${canonical}` } }
    },
  },
  /** Sends the rest of its body after more than a second. */
  'answers with a slow body': {
    handler() {
      const body = new PassThrough()
      body.write('begun')
      setTimeout(() => body.end(', ended'), 1_100)
      return { headers: { 'Cache-Control': 'max-age=60' }, body }
    },
  },
  ...KEY_TARGETS,
}

/** @param {string} name @returns {import('./apps.mjs').Target} */
export function targetOf(name) {
  const target = TARGETS[name]
  if (target === undefined) throw new Error(`No target named ${name}`)
  const { handler } = target
  return {
    ...target,
    handler(req, res) {
      runs.set(name, (runs.get(name) ?? 0) + 1)
      return handler(req, res)
    },
  }
}
