// Everybody who answers with the product, in the order of the table: a floor, and then who is measured against it.
import { spawnSync } from 'node:child_process'
import type { Subject } from './subject.ts'

const lacks = (program: string) => (): string | undefined =>
  spawnSync(program, ['-V'], { stdio: 'ignore' }).error ? `no ${program} on the PATH` : undefined

export const subjects: readonly Subject[] = [
  { id: 'node-floor', name: 'node:http, ready bytes', packages: [], kind: 'floor' },
  {
    id: 'front',
    name: '`stampedeFront` before Express 5',
    packages: ['@stampede/node-http', 'express'],
    kind: 'ours',
    floor: 'node-floor',
  },
  { id: 'express-floor', name: 'Express 5, ready bytes', packages: ['express'], kind: 'floor' },
  {
    id: 'express',
    name: '`stampedeCache` on Express 5',
    packages: ['@stampede/express', 'express'],
    kind: 'ours',
    floor: 'express-floor',
  },
  {
    id: 'express-uncached',
    name: 'Express 5, no cache, `res.json`',
    packages: ['express'],
    kind: 'uncached',
    floor: 'express-floor',
  },
  {
    id: 'bentocache',
    name: 'bentocache in a handler of Express 5',
    packages: ['bentocache', 'express'],
    kind: 'peer',
    floor: 'express-floor',
  },
  {
    id: 'cacheable',
    name: 'cacheable in a handler of Express 5',
    packages: ['cacheable', 'express'],
    kind: 'peer',
    floor: 'express-floor',
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe in a handler of Express 5',
    packages: ['async-cache-dedupe', 'express'],
    kind: 'peer',
    floor: 'express-floor',
  },
  { id: 'express4-floor', name: 'Express 4, ready bytes', packages: ['express4'], kind: 'floor' },
  {
    id: 'express4',
    name: '`stampedeCache` on Express 4',
    packages: ['@stampede/express', 'express4'],
    kind: 'ours',
    floor: 'express4-floor',
  },
  {
    id: 'apicache',
    name: 'apicache on Express 4',
    packages: ['apicache', 'express4'],
    kind: 'peer',
    floor: 'express4-floor',
  },
  { id: 'koa-floor', name: 'Koa, ready bytes', packages: ['koa'], kind: 'floor' },
  {
    id: 'koa',
    name: '`stampedeCache` on Koa',
    packages: ['@stampede/koa', 'koa'],
    kind: 'ours',
    floor: 'koa-floor',
  },
  {
    id: 'koa-uncached',
    name: 'Koa, no cache',
    packages: ['koa'],
    kind: 'uncached',
    floor: 'koa-floor',
  },
  {
    id: 'koa-cash',
    name: 'koa-cash on Koa',
    packages: ['koa-cash', 'koa'],
    kind: 'peer',
    floor: 'koa-floor',
  },
  {
    id: 'express-miss',
    name: '`stampedeCache` on Express 5, every request a miss',
    packages: ['@stampede/express', 'express'],
    kind: 'ours',
    floor: 'express-floor',
    server: 'express',
    isEachNew: true,
  },
  {
    id: 'apicache-miss',
    name: 'apicache on Express 4, every request a miss',
    packages: ['apicache', 'express4'],
    kind: 'peer',
    floor: 'express4-floor',
    server: 'apicache',
    isEachNew: true,
  },
  {
    id: 'nginx',
    name: 'nginx, `proxy_cache`, one worker',
    packages: [],
    kind: 'reference',
    floor: 'node-floor',
    isMissing: lacks('nginx'),
  },
  {
    id: 'varnish',
    name: 'Varnish, in memory',
    packages: [],
    kind: 'reference',
    floor: 'node-floor',
    isMissing: lacks('varnishd'),
  },
]
