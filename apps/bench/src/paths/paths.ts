// The measured paths through the cache and through idempotency keys, with the route of each.

import type { RequestKind } from './requests.ts'

/** The servers of `servers.ts`. */
export type ServerId =
  | 'express'
  | 'express-lru'
  | 'express-cached'
  | 'koa'
  | 'koa-cached'
  | 'koa-cached-inner'
  | 'orders'
  | 'orders-idempotent'

export interface Path {
  readonly id: string
  readonly name: string
  readonly server: ServerId
  readonly request: RequestKind
  readonly isOverRedis?: boolean
  /** Id of the path whose CPU it is divided by, under the same requests. */
  readonly of?: string
  /** The highest ratio that meets the target. */
  readonly wanted?: number
}

export const paths: readonly Path[] = [
  { id: 'route', name: 'Express 5: the route without a cache', server: 'express', request: 'new' },
  {
    ...{
      id: 'lru',
      name: 'a miss of a bare LRU with a map of running loads',
      server: 'express-lru',
    },
    ...{ request: 'new', of: 'route' },
  },
  {
    ...{ id: 'miss', name: 'a miss of `stampedeCache`', server: 'express-cached' },
    ...{ request: 'new', of: 'route', wanted: 1.5 },
  },
  {
    ...{ id: 'private-new', name: 'a private response under a new key', server: 'express-cached' },
    ...{ request: 'private-new', of: 'route', wanted: 1.4 },
  },
  {
    ...{
      id: 'private-known',
      name: 'a private response under a known key',
      server: 'express-cached',
    },
    ...{ request: 'private', of: 'route', wanted: 1.08 },
  },
  {
    ...{ id: 'bypass', name: 'a bypass because of a cookie', server: 'express-cached' },
    ...{ request: 'cookie', of: 'route', wanted: 1.08 },
  },
  { id: 'hit', name: 'a hit', server: 'express-cached', request: 'same', of: 'route' },
  { id: 'koa', name: 'Koa: the route without a cache', server: 'koa', request: 'new' },
  {
    ...{ id: 'koa-miss', name: 'a miss of `stampedeCache`', server: 'koa-cached' },
    ...{ request: 'new', of: 'koa' },
  },
  { id: 'koa-hit', name: 'a hit', server: 'koa-cached', request: 'same', of: 'koa' },
  {
    ...{ id: 'koa-hit-inner', name: 'a hit behind another middleware', server: 'koa-cached-inner' },
    ...{ request: 'same', of: 'koa' },
  },
  {
    id: 'order',
    name: 'Express 5: a route with `express.json()`',
    server: 'orders',
    request: 'order',
  },
  {
    ...{ id: 'first', name: 'a first request with `idempotency`', server: 'orders-idempotent' },
    ...{ request: 'order', of: 'order', wanted: 1.7 },
  },
  {
    ...{ id: 'replay', name: 'a replay', server: 'orders-idempotent' },
    ...{ request: 'repeated-order', of: 'order', wanted: 1.1 },
  },
  {
    ...{ id: 'first-redis', name: 'a first request over Redis', server: 'orders-idempotent' },
    ...{ isOverRedis: true, request: 'order', of: 'order', wanted: 2 },
  },
  {
    ...{ id: 'replay-redis', name: 'a replay over Redis', server: 'orders-idempotent' },
    ...{ isOverRedis: true, request: 'repeated-order', of: 'order', wanted: 1.1 },
  },
]
