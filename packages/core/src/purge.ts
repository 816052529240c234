// stampede.purge: checks the target (a key, path, route, tag or everything) and purges it in the
// store.

import { customKey } from './cache/key.ts'
import { purgeKey } from './engine/hints.ts'
import { optionError } from './errors.ts'
import { canonicalPath, patternNote, patternProblem } from './http/route-pattern.ts'
import { checkNames, flag, readOptions } from './options.ts'
import { dataKey } from './ports/key.ts'
import { ALL, pathSubject, routeSubject, tagSubject } from './ports/subject.ts'
import type { Runtime } from './runtime.ts'
import { warnOnce } from './warnings.ts'

/**
 * Exactly one target: a `key`, `path` (with an optional `host`), `route`, `tag`, or `all: true`.
 */
export type PurgeTarget = Only<Target>

type Target =
  /** The key of a `getOrSet` value, or the key that the option `key` returned for responses. */
  | { key: string }
  /**
   * A path with all queries and variants, on one host or on all hosts. Case, percent-encoding and a
   * slash at the end do not matter.
   */
  | { path: string; host?: string | undefined }
  /** All paths that match a pattern such as `/products/:id` or `/files/*rest`. */
  | { route: string }
  /** All entries with this tag. */
  | { tag: string }
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
const TARGETS = ['key', 'path', 'route', 'tag', 'all'] as const

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
  const [kind] = named
  if (kind === undefined || named.length > 1 || (bag.host !== undefined && kind !== 'path')) {
    throw targetError(target)
  }
  if (kind === 'key') return purgeByKey(rt, text(kind, bag.key), soft)
  await rt.store.mark(subjectOf(kind, bag), { soft })
}

function subjectOf(
  kind: Exclude<(typeof TARGETS)[number], 'key'>,
  bag: Readonly<Record<string, unknown>>,
): string {
  switch (kind) {
    case 'tag':
      return tagSubject(text(kind, bag.tag))
    case 'path':
      return pathSubject(
        readPath(bag.path),
        bag.host === undefined ? undefined : readHost(bag.host),
      )
    case 'route':
      return routeSubject(readRoute(bag.route))
    case 'all':
      if (bag.all === true) return ALL
      throw optionError(`${WHERE}.all`, bag.all, 'use { all: true } to purge everything')
  }
}

function readPath(value: unknown): string {
  const path = text('path', value)
  if (path.startsWith('/') && !/[?#]/.test(path)) {
    const note = patternNote(path)
    if (note !== undefined) warnOnce('STAMPEDE_PURGE', `purge({ path }): ${note}`)
    return canonicalPath(path)
  }
  throw optionError(
    `${WHERE}.path`,
    path,
    "pass the path only, from its first / and without a query: '/products/42'",
  )
}

function readHost(value: unknown): string {
  const host = text('host', value)
  if (!host.includes('/')) return host
  throw optionError(`${WHERE}.host`, host, `pass the host only: ${EXAMPLES.host}`)
}

function readRoute(value: unknown): string {
  const route = text('route', value)
  const problem = patternProblem(route)
  if (problem === undefined) return route
  throw optionError(`${WHERE}.route`, route, problem)
}

function text(name: keyof typeof EXAMPLES, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value
  const fix = `use a non-empty string: ${EXAMPLES[name]}`
  const each = Array.isArray(value) ? '; to purge several, call purge for each' : ''
  throw optionError(`${WHERE}.${name}`, value, `${fix}${each}`)
}

const EXAMPLES = {
  key: "{ key: 'rates:eur' }",
  tag: "{ tag: 'product:42' }",
  path: "{ path: '/products/42' }",
  host: "{ path: '/products/42', host: 'shop.test:8080' }",
  route: "{ route: '/products/:id' }",
}

const SOFT_IS_AN_OPTION = 'soft is an option, not a target: purge({ tag }, { soft: true })'

function targetError(target: unknown): Error {
  const { tag, path, route, key, host } = EXAMPLES
  const names = typeof target === 'object' && target !== null ? namesIn(target) : undefined
  const named = names === undefined ? '' : `it has ${names.join(' and ') || 'no target'}; `
  const fix =
    names?.includes('host') && !names.includes('path')
      ? `a host needs a path: ${host}`
      : `pass exactly one target: ${[tag, path, route, key].join(', ')} or { all: true }`
  return optionError(WHERE, target, named + fix)
}

function namesIn(target: object): string[] {
  const named = Object.entries(target).filter(([, value]) => value !== undefined)
  return named.map(([name]) => name)
}

/**
 * Purges the `getOrSet` value with this key, and the responses for which the option `key` returned
 * it.
 */
async function purgeByKey(rt: Runtime, key: string, soft: boolean): Promise<void> {
  const keys = [dataKey(key), customKey(key)]
  const results = await Promise.allSettled(keys.map((each) => purgeKey(rt, each, soft)))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}
