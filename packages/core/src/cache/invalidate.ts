// Stage: what an unsafe request made obsolete is purged (RFC 9111 §4.4): its own URL, and those of the same
// origin that its answer names. Started when the head of that answer is seen, before it leaves: whoever asks
// this process afterwards asks a store that was told before.

import { headerValue } from '../http/headers.ts'
import type { CapturedHead, Exchange, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'
import { forget, onPurge } from './hints.ts'
import { customKey, urlKey } from './key.ts'
import type { Runtime } from './runtime.ts'

/** RFC 9110 §9.2.1. Of any other method it is not known, and that counts as unsafe. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** What to do with the head of the answer; nothing, where no answer can make anything obsolete. Neither ever throws. */
export function invalidation<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
): ((head: CapturedHead) => void) | undefined {
  const { invalidateOn, key, query } = config
  if (invalidateOn === 'never' || SAFE.has(request.method)) return undefined
  // Asked now: routers change what it reads.
  const own = key && ownKey(key, native)
  if (key !== undefined && own === undefined) return undefined
  return (head) => {
    if (head.status < 200 || head.status > 399) return
    const keys = own === undefined ? urlKeys(request, query, head) : [own]
    for (const each of keys) void purge(rt, each)
  }
}

/** A `key` option is made for GET: what it cannot name for this request is not purged. */
function ownKey<Native>(key: (request: Native) => string, native: Native): string | undefined {
  try {
    const answer: unknown = key(native)
    return typeof answer === 'string' ? customKey(answer) : undefined
  } catch {
    return undefined
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

/** In this process at once, in the store by the next command that is sent to it, and here again for what came between. */
async function purge(rt: Runtime, key: string): Promise<void> {
  forget(rt, key)
  try {
    await rt.store.purge(key, { soft: false })
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'purge', error })
  }
  onPurge(rt, key, false)
}
