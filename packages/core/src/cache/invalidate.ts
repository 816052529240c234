// Stage: purges the responses that an unsafe request made obsolete (RFC 9111 §4.4). These are its
// own URL, the URLs of the same origin and the groups (RFC 9875 §3) that its response names, and
// the tags of the option. It starts when the head of that response is seen, before it leaves. So a
// later request to this process asks a store that has the purge.

import { forget, purgeKey } from '../flight/hints.ts'
import type { Runtime } from '../flight/runtime.ts'
import { headerValue } from '../http/headers.ts'
import { invalidatedGroups } from '../http/response-tags.ts'
import type { CapturedHead, Exchange, HeadWatch, Natives, RequestView } from '../ports/exchange.ts'
import { groupSubject, tagSubject } from '../ports/subject.ts'
import type { CacheConfig } from './cache-config.ts'
import { customKey, urlKey } from './key.ts'
import { askForTags, originOf } from './subjects.ts'

/** RFC 9110 §9.2.1. Of any other method it is not known, and that counts as unsafe. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** What to do with the head of the answer; nothing, where no answer can make anything obsolete. Neither ever throws. */
export function invalidation<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
): HeadWatch | undefined {
  const { invalidateOn, key, query } = config
  if (invalidateOn === 'never' || SAFE.has(request.method)) return undefined
  // Asked now: routers change what it reads.
  const own = key === undefined ? [] : ownKey(key, native)
  return (head, natives) => {
    if (head.status < 200 || head.status > 399) return
    for (const each of key === undefined ? urlKeys(request, query, head) : own) void purge(rt, each)
    for (const each of subjects(config, request, head, natives)) void purgeSubject(rt, each)
  }
}

/**
 * What shares a group with what the URL had stored stays (RFC 9875 §2.2.1 leaves that to the cache): it would have to be read first, with
 * all its variants.
 */
function subjects<Native>(
  config: CacheConfig<Native>,
  request: RequestView,
  head: CapturedHead,
  natives: Natives | undefined,
): ReadonlySet<string> {
  const origin = originOf(request)
  const tags = askForTags(config, 'invalidatedTags', natives) ?? []
  return new Set([
    ...invalidatedGroups(head.headers).map((group) => groupSubject(origin, group)),
    ...tags.map(tagSubject),
  ])
}

/** A `key` option is made for GET: what it cannot name for this request is not purged. */
function ownKey<Native>(key: (request: Native) => string, native: Native): readonly string[] {
  try {
    const answer: unknown = key(native)
    return typeof answer === 'string' ? [customKey(answer)] : []
  } catch {
    return []
  }
}

/** The keys of the target as received, and of what `Location` and `Content-Location` name on the same origin. */
function urlKeys(
  request: RequestView,
  query: CacheConfig['query'],
  head: CapturedHead,
): ReadonlySet<string> {
  const { scheme, host, target } = request
  const keys = new Set<string>()
  const isPath = target.startsWith('/') && !target.includes('#')
  if (isPath) keys.add(urlKey(request, query))
  const base = parse(`${scheme}://${host}${isPath ? target : '/'}`)
  if (base === undefined) return keys
  const named = ['location', 'content-location'].map((name) => headerValue(head.headers, name))
  for (const reference of isPath ? named : [target, ...named]) {
    const url = reference === undefined ? undefined : parse(reference, base)
    // Not `origin`: that is the same `null` for all schemes that are not of the web.
    if (url === undefined || url.protocol !== base.protocol || url.host !== base.host) continue
    keys.add(urlKey({ ...request, target: url.pathname + url.search }, query))
  }
  return keys
}

function parse(text: string, base?: URL): URL | undefined {
  try {
    return new URL(text, base)
  } catch {
    return undefined
  }
}

/** In this process at once, and in the store by the next command that is sent to it. */
async function purge(rt: Runtime, key: string): Promise<void> {
  forget(rt, key)
  try {
    await purgeKey(rt, key, false)
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'purge', error })
  }
}

/** The same for everything under a subject: judged as purged here, before the store says since when it is. */
async function purgeSubject(rt: Runtime, subject: string): Promise<void> {
  const known = rt.marks.expect(subject)
  try {
    await rt.store.mark(subject, { soft: false })
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key: subject, operation: 'purge', error })
  } finally {
    known()
  }
}
