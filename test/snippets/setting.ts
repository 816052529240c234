// Names that the snippets of the docs use without declaring them: an app, a Redis, a database and
// the functions of a shop.

import { createServer, type Server } from 'node:http'
import type { Http2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'
import Router from '@koa/router'
import { Logger, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { createLocks, fencedUpdate } from '@stampede/locks'
import { stampedeFront } from '@stampede/node-http'
import { redisStore } from '@stampede/redis'
import express, { type NextFunction, type Request, type Response } from 'express'
import { Cluster, Redis } from 'ioredis'
import type { Context, Next } from 'koa'
import { startPostgres } from '../../apps/shop/src/postgres.ts'

const TABLES = `
  create table invoices (id int primary key, total int, last_fence bigint not null default 0);
  create table products (id int primary key, price int, version int not null default 0, last_fence bigint not null default 0);
  create table counters (id int primary key, n int, last_fence bigint not null default 0);
  create table fences (resource text primary key, fence bigint not null);
  create table payments (month text, payer text);
  insert into invoices values (7, 0); insert into products values (7, 100); insert into counters values (7, 0);
`

interface Charge {
  readonly id: string
  readonly orderId: string
}

// biome-ignore lint/suspicious/noExplicitAny: node-postgres types its rows so.
type Query = (sql: string, values?: unknown[]) => Promise<{ rows: any[] }>

/** As node-postgres types it: rows of any columns. */
interface Database {
  query: Query
  transaction<T>(run: (tx: { query: Query }) => Promise<T>): Promise<T>
}

export interface Rates {
  readonly etag: string
  readonly list: unknown
}

declare global {
  namespace Express {
    interface Request {
      user: { id: string }
      session: { user?: string }
    }
  }
}

/** Signs everybody in, on Express and on Koa. */
function authenticate(req: Request, res: Response, next: NextFunction): void
function authenticate(ctx: Context, next: Next): Promise<unknown>
function authenticate(one: Request | Context, two: Response | Next, three?: NextFunction): unknown {
  const user = { id: 'user-7' }
  if (three === undefined) {
    ;(one as Context).state.user = user
    return (two as Next)()
  }
  ;(one as Request).user = user
  return three()
}

class AppModule {}
Module({})(AppModule)
Logger.overrideLogger(false)

export type Setting = Awaited<ReturnType<typeof createSetting>>['names']

/** The database that all snippets of a run share: it takes a second to start. */
export async function createDatabase(): Promise<PGlite> {
  const db = await startPostgres()
  await db.exec(TABLES)
  return db
}

process.env.IDEMPOTENCY_SECRET = 'a secret of thirty-two characters'

/** One for each snippet: the names that it uses as globals. */
export async function createSetting(redisUrl: string, db: PGlite) {
  process.env.REDIS_URL = redisUrl
  const redis = new Redis(redisUrl)
  // The default of 250 ms is too short while other tests load the machine.
  const store = redisStore(redis, { commandTimeoutMs: 5_000 })
  const stampede = createStampede({ store })
  const locks = createLocks({ store })
  const api = createServer((_req, res) => res.setHeader('ETag', '"1"').end('{}')).listen(0)
  const servers: (Server | Http2Server)[] = []
  const charge = async (..._input: unknown[]): Promise<Charge> => ({ id: 'c1', orderId: 'o1' })
  const id = async (..._input: unknown[]): Promise<string> => 'v1'
  const rates = async (_currency: string): Promise<Rates> => ({ etag: '', list: [] })
  const clients: (Redis | Cluster)[] = []
  // Servers of the snippets that do not exist: their errors are silenced, and they are
  // disconnected.
  const recorded = <Class extends typeof Redis | typeof Cluster>(of: Class): Class =>
    new Proxy(of, {
      construct(target, args) {
        const client: Redis | Cluster = Reflect.construct(target, args)
        clients.push(client.on('error', () => {}))
        return client
      },
    })
  const end = (_req: Request, res: Response): void => {
    res.locals.brand = 'brand:acme'
    res.json({ id: 7 })
  }
  const names = {
    // Imports of an earlier snippet of the page.
    ...{
      Cluster: recorded(Cluster),
      Redis: recorded(Redis),
      createLocks,
      createServer,
      createStampede,
      express,
      fencedUpdate,
    },
    ...{ idempotency, redisStore, stampedeCache, stampedeFront },
    app: express(),
    router: new Router(),
    nodes: [redis, redis.duplicate(), redis.duplicate()],
    lease: await locks.acquire('snippets'),
    order: { id: 'o1' },
    url: `http://127.0.0.1:${(api.address() as AddressInfo).port}/`,
    ...{ redis, store, stampede, locks },
    db: db as unknown as Database,
    ...{ authenticate, admins: authenticate, show: end, list: end, update: end, create: end },
    scope: (req: Request): string => req.user.id,
    loadProduct: async (productId: string) => ({ id: productId }),
    loadPage: async (path: string) => ({ path }),
    ids: ['u1', 'u2'],
    usersWithIds: async (all: readonly string[]) => all.map((id) => ({ id })),
    find: (query: unknown): unknown[] => [query],
    ...{ fetchRates: rates, pay: charge, placeOrder: charge, place: charge, createInvoice: charge },
    gateway: { charge, findByKey: async (_key: string): Promise<Charge | undefined> => charge() },
    receipts: { create: charge },
    ...{ versionOf: id, makeReport: id, collect: id, cleanUp: id, transfer: id, book: id },
    total: async (..._input: unknown[]): Promise<number> => 1250,
    logger: { warn: (..._input: unknown[]): void => {} },
    metrics: { count: (_type: string): void => {} },
    answered: { inc: (_labels: object): void => {} },
    save: id,
    busy: (status: number): number => status,
    AppModule,
    NestFactory,
    listener: (_req: unknown, res: { end(text: string): void }): void => res.end('hello'),
    /** A server of a snippet, on a free port. */
    serve<S extends Server | Http2Server>(server: S): S {
      servers.push(server)
      return server
    },
  }
  async function close(): Promise<void> {
    for (const server of [api, ...servers]) {
      if ('closeAllConnections' in server) server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    }
    await locks.close()
    await stampede.close()
    for (const client of [...clients, ...names.nodes]) client.disconnect()
  }
  return { names, servers, close }
}

/** Declares the names of the setting, and the types that snippets use, as globals. */
export function globalsOf(names: Setting): string {
  const declared = Object.keys(names).map((name) => `  const ${name}: Setting['${name}']`)
  return `import type { Setting } from '../../test/snippets/setting.ts'
declare global {
${declared.join('\n')}
  type Lease = import('@stampede/locks').Lease
  type Rates = import('../../test/snippets/setting.ts').Rates
}
// As the page about users says.
declare module 'fastify' {
  interface Session {
    user?: string
  }
}
`
}
