// Purge subjects: a tag, cache group, path, route, middleware, data cache or everything. In stores
// and messages, a subject is one string. Its first character shows its kind.

import { hash } from 'node:crypto'

/** The kind of target that a purge has. */
export type SubjectKind = 'tag' | 'group' | 'path' | 'route' | 'middleware' | 'cache' | 'all'

/** The subject of all entries. It is in no entry's list of subjects. */
export const ALL = '*'

const KINDS: Readonly<Record<string, SubjectKind>> = {
  t: 'tag',
  g: 'group',
  p: 'path',
  h: 'path',
  r: 'route',
  m: 'middleware',
  c: 'cache',
}

/** The kind of a purge subject, from its first letter. */
export function kindOf(subject: string): SubjectKind {
  return KINDS[subject[0] ?? ''] ?? 'all'
}

/** Longer tags and paths are hashed, because each process keeps purged subjects in memory. */
const LONGEST_PLAIN = 200

export function tagSubject(tag: string): string {
  return `t${bounded(tag)}`
}

/** Subject of a cache group, which belongs to one scheme and host (RFC 9875). */
export function groupSubject(origin: string, group: string): string {
  return `g${bounded(`${origin} ${group}`)}`
}

/** Subject of what the middlewares with one name and `invalidateOn: 'all'` have stored. */
export function middlewareSubject(name: string): string {
  return `m=${name}`
}

/** Subject of the values of `stampede.cache(name)`. No tag of a user is equal to it. */
export function cacheSubject(name: string): string {
  return `c${bounded(name)}`
}

/**
 * Subject of a path, which has the form that `canonicalPath` returns. Without `host`, the subject
 * covers the path on all hosts.
 */
export function pathSubject(path: string, host: string | undefined): string {
  return host === undefined ? `p${bounded(path)}` : `h${bounded(host.toLowerCase() + path)}`
}

/**
 * Subject of a route. The pattern is not hashed, because other processes match paths against it.
 */
export function routeSubject(pattern: string): string {
  return `r${pattern}`
}

export function isRoute(subject: string): boolean {
  return subject[0] === 'r'
}

/**
 * The text, or its hash if it is long. A lone surrogate, as at the end of a truncated tag, becomes
 * U+FFFD. Messages are UTF-8, in which a lone surrogate would become U+FFFD too.
 */
function bounded(text: string): string {
  if (text.length <= LONGEST_PLAIN) {
    return `=${/\p{Surrogate}/u.test(text) ? Buffer.from(text).toString() : text}`
  }
  return `#${hash('sha256', text, 'base64url')}`
}
