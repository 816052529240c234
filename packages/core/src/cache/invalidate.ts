// Purges by unsafe requests (RFC 9111 §4.4). Each such request purges:
//
// - its own URL;
// - the URLs in `Location` and `Content-Location` of its response, if they have the same origin;
// - the cache groups in `Cache-Group-Invalidation` of its response (RFC 9875 §3);
// - what the option `invalidateOn` names: tags, the paths above the URL, or all of the middleware.
//
// The cache sends the purges before the head of the response. So the lookup of a later request to
// this process comes after the purges.

import { forget, purgeKey } from '../engine/messages.ts'
import { headerValue } from '../http/headers.ts'
import type { CapturedHead, Exchange, HeadWatch, RequestView } from '../ports/exchange.ts'
import { canonicalPath } from '../ports/key.ts'
import { middlewareSubject, pathSubject } from '../ports/subject.ts'
import type { Runtime } from '../runtime.ts'
import type { CacheConfig } from './cache-options.ts'
import type { CacheParts } from './cache-parts.ts'
import { customKey, parseUrl, urlKey } from './key.ts'
import { purgedSubjects } from './subjects.ts'

/** Safe methods in the IANA registry (RFC 9110 §9.2.1). Unknown methods count as unsafe. */
const SAFE: ReadonlySet<string> = new Set(
  'GET HEAD OPTIONS PRI PROPFIND QUERY REPORT SEARCH TRACE'.split(' '),
)

/**
 * Returns a function that sends the purges, for a call with the head of the response. Returns
 * undefined if no response to this request purges anything. Neither function throws.
 */
export function invalidation<Native>(
  { rt, config, framework }: CacheParts<Native>,
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
): HeadWatch | undefined {
  const { invalidateOn, key, query } = config
  if (invalidateOn === 'never' || SAFE.has(request.method)) return undefined
  // These functions are called now, because a router may later change the request that they read.
  const own = key === undefined ? [] : ownKey(key, native)
  const mount = invalidateOn === 'parents' ? framework.mountOf?.(native) : undefined
  return (head, natives) => {
    if (head.status < 200 || head.status > 399) return
    const keys = key === undefined ? urlKeys(request, query, head) : own
    const wider = widerSubjects(config, request, mount ?? '')
    const named = [...new Set([...wider, ...purgedSubjects(config, request, head, natives)])]
    const purges = [...keys].map((each) => {
      forget(rt, each)
      return purge(rt, [each], () => purgeKey(rt, each, false))
    })
    if (named.length > 0) {
      const settled = rt.marks.expect(...named)
      purges.push(purge(rt, named, () => rt.store.mark(named, { soft: false })).finally(settled))
    }
    rt.waitUntil?.(Promise.all(purges))
  }
}

/**
 * The key from the `key` option. Empty if the option fails, because apps write the option for GET
 * requests.
 */
function ownKey<Native>(key: (request: Native) => string, native: Native): readonly string[] {
  try {
    const text: unknown = key(native)
    return typeof text === 'string' ? [customKey(text)] : []
  } catch {
    return []
  }
}

/**
 * The keys of the target as received and in its usual spelling, which routers may treat as equal,
 * and of the URLs on the same origin in `Location` and `Content-Location`.
 */
function urlKeys(
  request: RequestView,
  query: CacheConfig['query'],
  head: CapturedHead,
): ReadonlySet<string> {
  const { scheme, host } = request
  const target = withoutAuthority(request.target)
  const keys = new Set<string>()
  const isPath = target.startsWith('/') && !target.includes('#')
  if (isPath) keys.add(urlKey({ ...request, target }, query))
  const base = parseUrl(`${scheme}://${host}${isPath ? target : '/'}`)
  if (base === undefined) return keys
  const { pathname, search } = base
  for (const path of isPath ? [pathname, canonicalPath(pathname)] : [])
    keys.add(urlKey({ ...request, target: path + search }, query))
  const named = ['location', 'content-location'].map((name) => headerValue(head.headers, name))
  for (const reference of isPath ? named : [target, ...named]) {
    const url = reference === undefined ? undefined : parseUrl(reference, base)
    // `URL.origin` is not compared, because it is `null` for schemes other than those of the web.
    if (url === undefined || url.protocol !== base.protocol || url.host !== base.host) continue
    keys.add(urlKey({ ...request, target: url.pathname + url.search }, query))
  }
  return keys
}

/** The subjects of `invalidateOn` in addition to the URL, its groups and tags. */
function widerSubjects(
  { invalidateOn, cacheName = '' }: CacheConfig<never>,
  request: RequestView,
  mountedAt: string,
): readonly string[] {
  if (invalidateOn === 'all') return [middlewareSubject(cacheName)]
  if (invalidateOn !== 'parents') return []
  // The mount is a part of the rewritten path, if there is one. Entries have the received path. A
  // whole URL as target may seem to be rewritten behind a mount, but hardly ever is.
  const isRewritten = request.rewritten !== undefined && request.target.startsWith('/')
  const mount = isRewritten ? '' : mountedAt
  const paths = pathsOf(request).flatMap((path) => parents(path, mount))
  return paths.map((path) => pathSubject(path, request.host))
}

/** The canonical path of the target, as received and as a URL parser resolves its dot segments. */
function pathsOf({ scheme, host, target }: RequestView): readonly string[] {
  const [received = ''] = withoutAuthority(target).split(/[?#]/, 1)
  if (!received.startsWith('/')) return []
  const resolved = parseUrl(`${scheme}://${host}${received}`)
  return [received, ...(resolved === undefined ? [] : [resolved.pathname])].map(canonicalPath)
}

/**
 * Limit of the levels of a path that one request purges. The client chooses the path, and the fleet
 * remembers a limited number of purges.
 */
const MOST_LEVELS = 16

/** A canonical path and the paths above it, down from the one with as many parts as `mount`. */
function parents(path: string, mount: string): readonly string[] {
  const depth = mount.split('/').filter((part) => part !== '').length + 1
  const parts = path.split('/', depth + MOST_LEVELS - 2)
  const above = parts.map((_, i) => parts.slice(0, i + 1).join('/') || '/')
  return [...above.slice(depth - 1), path]
}

/**
 * Path and query of a target that is an absolute URL. Frameworks route it by its path alone, and
 * take scheme and host from elsewhere.
 */
function withoutAuthority(target: string): string {
  const path = target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')
  return path === target || path.startsWith('/') ? path : `/${path}`
}

/**
 * Purges a key, or subjects such as tags, with the next command. In this process, the entries of
 * a key are dropped at once, and those of a subject count as purged until the store has replied.
 */
async function purge(
  rt: Runtime,
  names: readonly string[],
  command: () => Promise<unknown>,
): Promise<void> {
  try {
    await command()
  } catch (error) {
    for (const key of names)
      rt.events.emit({ type: 'store.failed', key, operation: 'purge', error })
  }
}
