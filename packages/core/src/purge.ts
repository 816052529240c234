// stampede.purge: checks the target (keys, paths, routes, tags, a cache or everything), and purges
// it in the store.

import { customKey } from './cache/key.ts'
import { purgeKey } from './engine/messages.ts'
import { optionError, show, storeUnavailable } from './errors.ts'
import { patternMeant, patternProblem } from './http/route-pattern.ts'
import { type Bag, checkNames, flag, readOptions } from './options.ts'
import { canonicalPath, dataKey } from './ports/key.ts'
import { ALL, cacheSubject, pathSubject, routeSubject, tagSubject } from './ports/subject.ts'
import type { Runtime } from './runtime.ts'

/**
 * Exactly one target: a `key`, `path` (with an optional `host`), `route` or `tag`, 1 to 128 of them
 * as `keys`, `paths`, `routes` or `tags`, a `cache`, or `all: true`.
 */
export type PurgeTarget = Only<Target>

type Target =
  /** The key of a `getOrSet` value, or the key that the option `key` returned for responses. */
  | { key: string }
  /** 1 to 128 keys. If some fail, the error names them. */
  | { keys: readonly string[] }
  /**
   * A path with all queries and variants, on one host or on all hosts. Case, percent-encoding and a
   * slash at the end do not matter.
   */
  | { path: string; host?: string | undefined }
  /** 1 to 128 paths, in one command. */
  | { paths: readonly string[]; host?: string | undefined }
  /** All paths that match a pattern such as `/products/:id` or `/files/*rest`. */
  | { route: string }
  /** 1 to 128 patterns, in one command. */
  | { routes: readonly string[] }
  /** All entries with this tag. */
  | { tag: string }
  /** All entries with at least one of 1 to 128 tags, in one command. */
  | { tags: readonly string[] }
  /** All values of the cache `stampede.cache(name)`, as its `clear()` does. */
  | { cache: string }
  /** All entries. */
  | { all: true }

type Only<T, All = T> = T extends unknown ? T & { [name in NameOf<All, T>]?: undefined } : never
/** The property names of all targets, except those of `T`. */
type NameOf<All, T> = Exclude<All extends unknown ? keyof All : never, keyof T>

/** Options of `stampede.purge`. */
export interface PurgeOptions {
  /** Makes the entries stale instead of dropping them. Default false. */
  soft?: boolean | undefined
}

const WHERE = 'purge'
const KINDS = ['key', 'path', 'route', 'tag'] as const
type Kind = (typeof KINDS)[number] | 'cache'
const PLURALS = KINDS.map((kind) => `${kind}s` as const)
const TARGETS = [...KINDS, ...PLURALS, 'cache', 'all'] as const
/** Limit of the names in one call, so that one command purges all of them. */
const MOST_NAMES = 128

/** Purges a target. Rejects with `ERR_STAMPEDE_OPTION` or `ERR_STAMPEDE_STORE_UNAVAILABLE`. */
export async function purge(
  rt: Runtime,
  target: PurgeTarget,
  options?: PurgeOptions,
): Promise<void> {
  if (typeof target !== 'object' || target === null) throw targetError(target)
  if ('soft' in target) throw optionError(`${WHERE}.soft`, target.soft, SOFT_IS_AN_OPTION)
  const bag = checkNames(WHERE, target, [...TARGETS, 'host'])
  const { soft } = readOptions(WHERE, options, { soft: flag(false) })
  const named = TARGETS.filter((name) => bag[name] !== undefined)
  const [chosen] = named
  const hasPath = chosen === 'path' || chosen === 'paths'
  if (chosen === undefined || named.length > 1 || (bag.host !== undefined && !hasPath))
    throw targetError(target)
  if (chosen === 'all') {
    if (bag.all === true) return rt.store.mark(ALL, { soft })
    throw optionError(`${WHERE}.all`, bag.all, 'use { all: true } to purge everything')
  }
  const kind = chosen.replace('s', '') as Kind
  const names = namesIn(kind, bag)
  if (kind === 'key') return purgeByKey(rt, names, soft)
  const host = bag.host === undefined ? undefined : readHost(bag.host)
  await rt.store.mark(
    names.map((name) => subjectOf(kind, name, host)),
    { soft },
  )
}

/** The one name of a target such as `tag`, or the names of a target such as `tags`. */
function namesIn(kind: Kind, bag: Bag): readonly string[] {
  const one = bag[kind]
  if (one !== undefined) return [text(kind, one)]
  const many: unknown = bag[`${kind}s`]
  const isList = Array.isArray(many) && many.length > 0 && many.length <= MOST_NAMES
  const fix = `use an array of 1 to ${MOST_NAMES} non-empty strings; split a longer one`
  if (!isList) throw optionError(`${WHERE}.${kind}s`, many, fix)
  return [...new Set(many.map((name, i) => text(kind, name, `${WHERE}.${kind}s[${i}]`)))]
}

function subjectOf(kind: Exclude<Kind, 'key'>, name: string, host: string | undefined): string {
  if (kind === 'tag') return tagSubject(name)
  if (kind === 'cache') return cacheSubject(readCacheName(name))
  if (kind === 'path') return pathSubject(readPath(name), host)
  const problem = patternProblem(name)
  if (problem === undefined) return routeSubject(name)
  throw optionError(`${WHERE}.route`, name, problem)
}

function readPath(path: string): string {
  const pattern = patternMeant(path)
  const fix =
    pattern === undefined
      ? "pass the path only, from its first / and without a query: '/products/42'"
      : `a path has no wildcards; to purge all paths of a pattern, use { route: '${pattern}' }`
  if (pattern === undefined && path.startsWith('/') && !/[?#]/.test(path))
    return canonicalPath(path)
  throw optionError(`${WHERE}.path`, path, fix)
}

function readCacheName(name: string): string {
  if (!name.includes(':')) return name
  const fix = `pass the name only: ${EXAMPLES.cache}; to purge one value, use ${EXAMPLES.key}`
  throw optionError(`${WHERE}.cache`, name, fix)
}

function readHost(value: unknown): string {
  const host = text('host', value)
  if (!host.includes('/')) return host
  throw optionError(`${WHERE}.host`, host, `pass the host only: ${EXAMPLES.host}`)
}

function text(name: Kind | 'host', value: unknown, where = `${WHERE}.${name}`): string {
  if (typeof value === 'string' && value !== '') return value
  const fix = `use a non-empty string: ${EXAMPLES[name]}`
  const hasPlural = (KINDS as readonly string[]).includes(name)
  const each = Array.isArray(value) && hasPlural ? `; to purge several, use ${name}s` : ''
  throw optionError(where, value, `${fix}${each}`)
}

const EXAMPLES = {
  key: "{ key: 'rates:eur' }",
  tag: "{ tag: 'product:42' }",
  path: "{ path: '/products/42' }",
  host: "{ path: '/products/42', host: 'shop.test:8080' }",
  route: "{ route: '/products/:id' }",
  cache: "{ cache: 'rates' }",
}

const SOFT_IS_AN_OPTION = 'soft is an option, not a target: purge({ tag }, { soft: true })'

function targetError(target: unknown): Error {
  const { tag, path, route, key, cache, host } = EXAMPLES
  const names = typeof target === 'object' && target !== null ? setIn(target) : undefined
  const named = names === undefined ? '' : `it has ${names.join(' and ') || 'no target'}; `
  const fix =
    names?.includes('host') && !names.includes('path')
      ? `a host needs a path: ${host}`
      : `pass exactly one target: ${[tag, path, route, key, cache].join(', ')} or { all: true }`
  return optionError(WHERE, target, named + fix)
}

function setIn(target: object): string[] {
  const named = Object.entries(target).filter(([, value]) => value !== undefined)
  return named.map(([name]) => name)
}

/**
 * Purges the `getOrSet` values with these keys, and the responses for which the option `key`
 * returned them. Each key is a record of its own, so some may fail. The error names these.
 */
async function purgeByKey(rt: Runtime, names: readonly string[], soft: boolean): Promise<void> {
  const errors = new Map<string, unknown>()
  const purges = names.flatMap((name) =>
    [dataKey(name), customKey(name)].map((key) =>
      purgeKey(rt, key, soft).catch((error: unknown) => errors.set(name, error)),
    ),
  )
  await Promise.all(purges)
  const [why] = errors.values()
  if (errors.size === 0) return
  if (names.length === 1) throw why
  throw storeUnavailable(rt.store.name, `purge of ${[...errors.keys()].map(show).join(', ')}`, why)
}
