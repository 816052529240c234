// Requests that the dashboard must not answer: they get exactly the response of the app.

import { createRequire } from 'node:module'
import { createStampede, type Stampede } from '@stampede/core'
import type { Express, Request, RequestHandler } from 'express'
import Koa from 'koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import type { Authorize } from './admission.ts'
import { stampedeDashboard, stampedeDashboardKoa } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]
const mount: (path: string, middleware: Koa.Middleware) => Koa.Middleware = require('koa-mount')
const json: () => RequestHandler = require('express').json

const ASKED: ReadonlyArray<readonly [method: string, path: string]> = [
  ['GET', '/dashboard'],
  ['GET', '/dashboard/'],
  ['GET', '/dashboard/index.html'],
  ['GET', '/dashboard/icon.svg'],
  ['HEAD', '/dashboard/'],
  ['GET', '/dashboard/api/fleet'],
  ['GET', '/dashboard/api/live'],
  ['GET', '/dashboard/api/key?key=a'],
  ['GET', '/dashboard/none'],
  ['POST', '/dashboard/api/purge'],
  ['DELETE', '/dashboard/api/purge'],
  ['OPTIONS', '/dashboard/api/purge'],
]

const REFUSALS: ReadonlyArray<readonly [string, Authorize<unknown>]> = [
  ['returns false', () => false],
  ['resolves to false', async () => false],
  [
    'throws',
    () => {
      throw new Error('no session')
    },
  ],
  ['rejects', () => Promise.reject(new Error('no session'))],
  ['returns a user instead of a boolean', (() => ({ name: 'Ada' })) as unknown as () => boolean],
  ["is 'insecure-local' and the host is foreign", 'insecure-local'],
]

let stampede: Stampede
beforeEach(() => {
  stampede = createStampede()
})
afterEach(() => stampede.close())

async function answers(port: number): Promise<unknown[]> {
  const all = []
  for (const [method, path] of ASKED) {
    const fields = method === 'POST' ? ['Content-Type: application/json', 'Content-Length: 0'] : []
    all.push([method, path, await rawRequest(port, path, fields, method)])
  }
  return all
}

describe.each(REFUSALS)('a request, if authorize %s,', (_, authorize) => {
  it.each(VERSIONS)('gets the response of the app on %s', async (_version, express) => {
    const app = (withDashboard: boolean): Express => {
      const created = express().set('env', 'test')
      if (withDashboard) created.use('/dashboard', stampedeDashboard({ stampede, authorize }))
      return created.use(json()).get('/dashboard/icon.svg', (_req, res) => void res.send('mine'))
    }
    await using plain = await serve(app(false))
    await using mounted = await serve(app(true))
    expect(await answers(mounted.port)).toEqual(await answers(plain.port))
  })

  it('gets the response of the app on Koa', async () => {
    const app = (withDashboard: boolean): Koa => {
      const created = new Koa()
      if (withDashboard) {
        created.use(mount('/dashboard', stampedeDashboardKoa({ stampede, authorize })))
      }
      return created.use((ctx) => {
        if (ctx.path === '/dashboard/icon.svg') ctx.body = 'mine'
      })
    }
    await using plain = await serve(app(false).callback())
    await using mounted = await serve(app(true).callback())
    expect(await answers(mounted.port)).toEqual(await answers(plain.port))
  })

  it('gets a bare 404 on node:http', async () => {
    await using server = await serve(stampedeDashboard({ stampede, authorize }))
    for (const [, , response] of (await answers(server.port)) as [string, string, object][]) {
      expect(response).toMatchObject({ head: expect.arrayContaining(['HTTP/1.1 404 Not Found']) })
      const names = (response as { head: string[] }).head.slice(1).map((line) => line.split(':')[0])
      expect(['Connection', 'Content-Length', 'Transfer-Encoding']).toEqual(
        expect.arrayContaining(names),
      )
    }
  })
})

describe("'insecure-local'", () => {
  /** Statuses by the address of this machine, and by a foreign name for it. */
  const askWith = async (fields: string[]) => {
    await using server = await serve(stampedeDashboard({ stampede, authorize: 'insecure-local' }))
    const response = await fetch(`http://127.0.0.1:${server.port}/api/fleet`, {
      headers: Object.fromEntries(fields.map((field) => field.split(': ') as [string, string])),
    })
    await response.text()
    const byHost = await rawRequest(server.port, '/api/fleet')
    return [response.status, byHost.head[0]]
  }

  it('answers a client on this machine, but not one behind a proxy or with a foreign host', async () => {
    expect(await askWith([])).toMatchObject([200, 'HTTP/1.1 404 Not Found'])
    for (const field of ['X-Forwarded-For: 10.0.0.1', 'Forwarded: for=10.0.0.1', 'Via: 1.1 x']) {
      expect((await askWith([field]))[0], field).toBe(404)
    }
  })

  it('warns once', async () => {
    const warnings: string[] = []
    const listen = (warning: Error & { code?: string }) => warnings.push(warning.code ?? '')
    process.on('warning', listen)
    for (let i = 0; i < 3; i++) {
      await stampedeDashboard({ stampede, authorize: 'insecure-local' }).close()
    }
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', listen)
    expect(warnings.filter((code) => code === 'STAMPEDE_DASHBOARD').length).toBeLessThanOrEqual(1)
  })
})

describe('the options', () => {
  const create = (options: object) => () => stampedeDashboard(options as never)

  it('need an authorization', () => {
    expect(create({ stampede })).toThrow(/stampedeDashboard.authorize: .*insecure-local/)
    expect(create({ stampede, authorize: true })).toThrow('stampedeDashboard.authorize')
    expect(create({ stampede, authorize: 'local' })).toThrow('stampedeDashboard.authorize')
  })

  it('are checked', () => {
    const authorize = () => true
    expect(create({ stampede: {}, authorize })).toThrow('stampede')
    expect(create({ stampede, authorize, path: '/a/' })).toThrow('stampedeDashboard.path')
    expect(create({ stampede, authorize, locks: {} })).toThrow('stampedeDashboard.locks')
    expect(create({ stampede, authorize, showKeys: 1 })).toThrow('stampedeDashboard.showKeys')
    expect(create({ stampede, authorise: authorize })).toThrow('authorize')
  })
})

describe('authorize', () => {
  it('gets the request of Express, and may allow reading only', async () => {
    const express = VERSIONS[1]?.[1]
    if (express === undefined) return
    const authorize = (req: Request) => req.get('x-role') === 'operator' && req.method === 'GET'
    const app = express().use('/dashboard', stampedeDashboard({ stampede, authorize }))
    await using server = await serve(app)
    const ask = (method: string) =>
      rawRequest(server.port, '/dashboard/api/fleet', ['X-Role: operator'], method)
    expect((await ask('GET')).head[0]).toContain('200')
    expect((await ask('POST')).head[0]).toContain('404')
  })

  it('is not asked about other paths if the option path is set', async () => {
    const asked: string[] = []
    const authorize = ({ url = '' }: { url?: string | undefined }) => asked.push(url) > 0
    const options = { stampede, authorize, path: '/ops/cache' }
    await using server = await serve(stampedeDashboard(options))
    const status = async (path: string) => (await rawRequest(server.port, path)).head[0]
    expect(await status('/ops/cache/api/fleet')).toContain('200')
    expect(await status('/ops/cache')).toContain('302')
    expect(await status('/ops/cachet/')).toContain('404')
    expect(await status('/')).toContain('404')
    expect(asked).toEqual(['/ops/cache/api/fleet', '/ops/cache'])
  })
})
