// What a purge can be about, other than one key: a tag, a path, a route, or everything. A subject is its name in a store
// and in messages; the first letter says what it is.

import { createHash } from 'node:crypto'

export type SubjectKind = 'tag' | 'group' | 'path' | 'route' | 'all'

/** Every subject of anything: what was made has no need to name it. */
export const ALL = '*'

const KINDS: Readonly<Record<string, SubjectKind>> = {
  t: 'tag',
  g: 'group',
  p: 'path',
  h: 'path',
  r: 'route',
}

export function kindOf(subject: string): SubjectKind {
  return KINDS[subject[0] ?? ''] ?? 'all'
}

/** Longer ones are hashed: how long a tag is, is the user's, and how much the fleet has to remember of it is ours. */
const LONGEST_PLAIN = 200

export function tagSubject(tag: string): string {
  return `t${bounded(tag)}`
}

/** RFC 9875: a group belongs to one origin. */
export function groupSubject(origin: string, group: string): string {
  return `g${bounded(`${origin} ${group}`)}`
}

/** `path` as canonicalPath gives it; without `host`, that path on every host. */
export function pathSubject(path: string, host: string | undefined): string {
  return host === undefined ? `p${bounded(path)}` : `h${bounded(host.toLowerCase() + path)}`
}

/** The pattern itself, since others have to match it. */
export function routeSubject(pattern: string): string {
  return `r${pattern}`
}

export function isRoute(subject: string): boolean {
  return subject[0] === 'r'
}

/** Half of a character (a tag that was cut off) is no UTF-8: in messages it is U+FFFD, and so it has to be everywhere. */
function bounded(text: string): string {
  if (text.length <= LONGEST_PLAIN) {
    return `=${/\p{Surrogate}/u.test(text) ? Buffer.from(text).toString() : text}`
  }
  return `#${createHash('sha256').update(text).digest('base64url')}`
}
