// The rows of `npm run bench` and `npm run bench:paths` that are servers, in their order.
import type { RowSpec } from '../lib/rows.ts'
import type { ServerRow } from './run-servers.ts'

type Entry = readonly [id: string, kind: RowSpec['kind'], name: string, more?: Partial<ServerRow>]

const row = ([id, kind, name, more]: Entry): ServerRow => ({ id, kind, name, ...more })

/** A floor, and the rows that are divided by it. */
const group = (floor: Entry, ...rows: Entry[]): ServerRow[] => [
  row(floor),
  ...rows.map((each) => ({ ...row(each), floor: floor[0] })),
]

const redis = { isOverRedis: true }

export const hits: readonly ServerRow[] = [
  ...group(
    ['node-floor', 'floor', 'node:http, ready bytes'],
    ['front', 'ours', '`stampedeFront` before Express 5'],
  ),
  ...group(
    ['express-used', 'floor', 'Express 5, ready bytes before the routes'],
    ['express', 'ours', '`stampedeCache` on Express 5'],
  ),
  ...group(
    ['express-floor', 'floor', 'Express 5, ready bytes in a handler'],
    ['express-uncached', 'uncached', 'Express 5, no cache, `res.json`'],
    ['bentocache', 'peer', 'bentocache in a handler of Express 5'],
    ['cacheable', 'peer', 'cacheable in a handler of Express 5'],
    ['async-cache-dedupe', 'peer', 'async-cache-dedupe in a handler of Express 5'],
  ),
  ...group(
    ['redis-floor', 'floor', 'Express 5, `getBuffer` in the handler and its bytes', redis],
    ['redis', 'ours', '`stampedeCache` on Express 5, no memory tier: a hit from Redis', redis],
  ),
  ...group(
    ['express4-floor', 'floor', 'Express 4, ready bytes before the routes'],
    ['express4', 'ours', '`stampedeCache` on Express 4'],
    ['apicache', 'peer', 'apicache on Express 4'],
  ),
  ...group(
    ['koa-floor', 'floor', 'Koa, ready bytes'],
    ['koa', 'ours', '`stampedeCache` on Koa'],
    ['koa-uncached', 'uncached', 'Koa, no cache'],
    ['koa-cash', 'peer', 'koa-cash on Koa'],
  ),
  {
    ...{ id: 'express-miss', kind: 'ours', server: 'express', request: 'new' },
    ...{ floor: 'express-used', name: '`stampedeCache` on Express 5, every request a miss' },
  },
  {
    ...{ id: 'apicache-miss', kind: 'peer', server: 'apicache', request: 'new' },
    ...{ floor: 'express4-floor', name: 'apicache on Express 4, every request a miss' },
  },
]

const to = (server: string, request: ServerRow['request'], wanted?: number) =>
  ({ server, ...(request && { request }), ...(wanted && { wanted }) }) as const
const idempotent = (request: ServerRow['request'], wanted: number) =>
  to('orders-idempotent', request, wanted)

/** Node 24 runs Express three times as fast as Node 20, so a miss is more in comparison. */
const MISS = Number.parseInt(process.versions.node, 10) < 24 ? 1.5 : 2.2

/** Each is divided by the route without Stampede, under the same requests. */
export const paths: readonly ServerRow[] = [
  ...group(
    ['route', 'uncached', 'Express 5: the route without a cache', to('express-uncached', 'new')],
    ['lru', 'peer', 'a miss of a bare LRU with a map of running loads', to('express-lru', 'new')],
    ['miss', 'ours', 'a miss of `stampedeCache`', to('express', 'new', MISS)],
    [
      'private-new',
      'ours',
      'a private response under a new key',
      to('express', 'private-new', 1.4),
    ],
    [
      'private-known',
      'ours',
      'a private response under a known key',
      to('express', 'private', 1.05),
    ],
    ['bypass', 'ours', 'a bypass because of a cookie', to('express', 'cookie', 1.05)],
    ['hit', 'ours', 'a hit', to('express', 'same')],
  ),
  ...group(
    ['koa-route', 'uncached', 'Koa: the route without a cache', to('koa-uncached', 'new')],
    ['koa-miss', 'ours', 'a miss of `stampedeCache`', to('koa', 'new', 2.2)],
    ['koa-hit', 'ours', 'a hit', to('koa', 'same')],
    ['koa-hit-inner', 'ours', 'a hit behind another middleware', to('koa-inner', 'same')],
  ),
  ...group(
    [
      'get-read',
      'floor',
      'Express 5: a hit of a GET, whose body is read',
      to('query-as-get', 'query'),
    ],
    ['query-hit', 'ours', 'a hit of a QUERY', to('query', 'query', 1.35)],
  ),
  ...group(
    ['order', 'uncached', 'Express 5: a route with `express.json()`', to('orders', 'order')],
    ['first', 'ours', 'a first request with `idempotency`', idempotent('order', 1.7)],
    ['replay', 'ours', 'a replay', idempotent('repeated-order', 1.1)],
    [
      ...(['first-redis', 'ours', 'a first request over Redis'] as const),
      { ...redis, ...idempotent('order', 2) },
    ],
    [
      ...(['replay-redis', 'ours', 'a replay over Redis'] as const),
      { ...redis, ...idempotent('repeated-order', 1.1) },
    ],
  ),
]
