// Process warnings: the list of their codes, and a function that emits each text once.

/**
 * All codes of process warnings, each with the case in which it occurs. A test checks that the
 * table in docs/guide/events.md is equal.
 */
export const WARNING_CODES = {
  STAMPEDE_PROCESS_MEMORY:
    'idempotency keys or locks are in process memory, and `node:cluster` or PM2 runs several processes',
  STAMPEDE_MOUNT_ORDER:
    'a middleware is mounted after the routes, so it sees none of their requests',
  STAMPEDE_SEPARATE_CACHES:
    'two `stampedeCache()` of one app have separate caches, because one has no option `stampede`',
  STAMPEDE_NEVER_STORED:
    'a `stampedeCache` stored no response of its first 100 GET requests for at least 3 URLs, and had no hit',
  STAMPEDE_NEVER_HIT:
    'a `stampedeCache` had no hit in its first 100 GET requests, and stored half of their responses although their URLs were stored before',
  STAMPEDE_MANY: 'more than 10 Stampedes are open in one process',
  STAMPEDE_REFRESH: 'a background refresh failed; once more after 10 failures in a row',
  STAMPEDE_TAGS: 'an option `tags` or `invalidateOn.tags` threw, or returned no tags',
  STAMPEDE_AUDIT: 'with `audit: true`: a handler read a part of the request that is not in the key',
  STAMPEDE_UNASKED_KEY: 'a factory of `getOrSetMany` returned keys that it did not get',
  STAMPEDE_FRONT: 'a listener behind `stampedeFront` or `idempotentFront` threw',
  STAMPEDE_DASHBOARD:
    'a dashboard has no authorization but `insecure-local`, or its `authorize` fails',
  STAMPEDE_LATE_IMPORT:
    '`@stampede/fastify` was imported after the app was created, and routes have constraints',
  STAMPEDE_EVICTION: 'Redis may evict idempotency records',
  STAMPEDE_NO_LISTEN: 'notices of PostgreSQL do not arrive, so waiting requests poll',
} as const

/** A code of `WARNING_CODES`. */
export type StampedeWarningCode = keyof typeof WARNING_CODES

/** Texts that this process has emitted. Hardly any text has a path, but an app may purge many. */
const emitted = new Set<string>()
const MOST_TEXTS = 100

/** Emits a `StampedeWarning`, once per process for each text. */
export function warnOnce(code: StampedeWarningCode, text: string): void {
  if (emitted.has(text) || emitted.size >= MOST_TEXTS) return
  emitted.add(text)
  warn(code, text)
}

/** Emits a `StampedeWarning`. */
export function warn(code: StampedeWarningCode, text: string): void {
  process.emitWarning(text, { type: 'StampedeWarning', code })
}
