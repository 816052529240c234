// Tasks of readers: what they type into the search of the docs site, and the topics of right pages.
// These are topics and not pages, because pages are joined and renamed.

import type { TOPICS } from '../../tools/site/search.mjs'

export type Topic = keyof typeof TOPICS
type Task = readonly [task: string, ...topics: Topic[]]

/** The words of the search were chosen with these tasks in view, so each must be found. */
export const KNOWN_TASKS: readonly Task[] = [
  ['clear cache', 'purging'],
  ['invalidate cache', 'purging'],
  ['delete one page from cache', 'purging'],
  ['flush everything', 'purging'],
  ['purge by tag', 'purging'],
  ['expire cache after update', 'purging'],
  ['set ttl', 'caching'],
  ['ttl', 'caching'],
  ['thundering herd', 'caching'],
  ['dogpile', 'caching'],
  ['warm up cache', 'data', 'caching'],
  ['cache for logged in users', 'users', 'sessions'],
  ['jwt', 'users'],
  ['cache only for guests', 'sessions', 'users'],
  ['express session', 'sessions'],
  ['cookie', 'keys', 'why', 'storable', 'users'],
  ['why not cached', 'why'],
  ['always miss', 'why'],
  ['cache database query', 'data'],
  ['prisma', 'data'],
  ['memoize function', 'data'],
  ['double payment', 'idempotency'],
  ['stripe', 'idempotency'],
  ['webhook twice', 'idempotency'],
  ['409', 'idempotency'],
  ['exactly once', 'postgres'],
  ['mutex', 'locks'],
  ['cron job once', 'cron'],
  ['leader election', 'locks'],
  ['deadlock', 'locks'],
  ['fencing token', 'fencing'],
  ['jest', 'testing'],
  ['supertest', 'testing'],
  ['unit test', 'testing'],
  ['cloudflare', 'cdn'],
  ['nginx', 'cdn'],
  ['docker', 'kubernetes'],
  ['kubernetes', 'kubernetes'],
  ['graceful shutdown', 'production'],
  ['pm2', 'production', 'kubernetes'],
  ['websocket', 'front'],
  ['list all keys', 'command line'],
  ['prometheus', 'metrics'],
  ['query string order', 'keys'],
  ['mobile api version header', 'keys'],
  ['stale while revalidate', 'stale'],
  ['redis down', 'redis'],
  ['redis cluster', 'topologies', 'redis'],
  ['koa', 'koa'],
  ['nest', 'nest'],
  ['getOrSet', 'data'],
  ['apicache', 'apicache'],
  ['upgrade to a new version', 'changes'],
  ['idempotency key', 'idempotency'],
]

/**
 * Written before the search was tried with them. At least 22 of these must be found. If one fails
 * after a change of the pages, prefer a better heading to a word for the search.
 */
export const FRESH_TASKS: readonly Task[] = [
  ['clear a page after a save', 'purging'],
  ['why is nothing cached', 'why'],
  ['two users see the same page', 'users', 'sessions', 'keys'],
  ['cache a graphql query', 'graphql'],
  ['do not cache one route', 'caching', 'why', 'storable'],
  ['only one pod runs the nightly job', 'cron', 'idempotency'],
  ['customer charged twice', 'idempotency'],
  ['user clicks the pay button two times', 'idempotency'],
  ['what happens if redis goes away', 'redis'],
  ['serve the old page while the database is broken', 'failures', 'stale'],
  ['when do other servers see a purge', 'purging', 'promises'],
  ['alert when hit rate drops', 'alerts', 'metrics'],
  ['see what is stored for a url', 'command line', 'dashboard'],
  ['page in german and english', 'keys', 'languages'],
  ['ignore utm parameters', 'keys'],
  ['retry a file upload', 'idempotency'],
  ['lock expired but the job is still running', 'fencing', 'locks'],
  ['sentinel failover', 'topologies', 'redis'],
  ['aws lambda', 'serverless'],
  ['mock the clock in tests', 'testing'],
  ['switch from redlock', 'redlock'],
  ['nestjs decorator', 'nest'],
  ['response too big', 'caching', 'why', 'storable'],
  ['browser still shows the old version', 'purging', 'cdn', 'why'],
]
export const FRESH_FOUND = 22
