// The subjects of a response: its tags and cache groups, from the `tags` option and from its header
// fields. They are determined once, for a storable response. If the `tags` option fails, purges
// could not find the response by its tags, so it is not stored. Names are case-sensitive.

import { callbackError, StampedeError } from '../errors.ts'
import { headerValues, trimOws } from '../http/headers.ts'
import { parseList } from '../http/structured-fields.ts'
import type { CapturedHead, HeaderList, Natives, RequestView } from '../ports/exchange.ts'
import { groupSubject, kindOf, middlewareSubject, tagSubject } from '../ports/subject.ts'
import { evaluateTags, MOST_TAGS } from '../tags.ts'
import { CACHE_FUNCTION, type CacheConfig } from './cache-options.ts'
import type { NotStorableReason, Storable } from './storable.ts'

/**
 * Adds the subjects of a storable response to `verdict`. Returns why the response is not storable
 * if the `tags` option fails or if there are too many subjects. Never throws.
 */
export function withSubjects(
  verdict: Storable,
  head: CapturedHead,
  request: RequestView,
  config: CacheConfig<never>,
  natives: Natives | undefined,
): Storable | NotStorableReason {
  const fieldTags = responseTags(head.headers)
  const groups = cacheGroups(head.headers)
  const tags = config.tags === undefined ? NONE : callTagsOption(config, 'tags', natives)
  if (tags === undefined) return 'tags'
  const all = config.invalidateOn === 'all' ? [middlewareSubject(config.cacheName ?? '')] : NONE
  const subjects = new Set(verdict.subjects)
  for (const tag of fieldTags) subjects.add(tagSubject(tag))
  for (const group of groups) subjects.add(groupSubject(originOf(request), group))
  for (const tag of tags) subjects.add(tagSubject(tag))
  for (const each of all) subjects.add(each)
  const list = [...subjects]
  // The limit is for names of the app. A cache in front may have added its own middleware, too.
  const named = list.filter((each) => kindOf(each) !== 'middleware')
  return named.length > MOST_TAGS ? 'too-many-tags' : { ...verdict, subjects: list }
}

const NONE: readonly string[] = []

/**
 * The cache groups and tags that an unsafe request purges. The cache groups of the stored response
 * at this URL are not purged, which RFC 9875 §2.2.1 allows. To find these groups, the cache would
 * have to read the entry and all its variants.
 */
export function purgedSubjects<Native>(
  config: CacheConfig<Native>,
  request: RequestView,
  head: CapturedHead,
  natives: Natives | undefined,
): readonly string[] {
  const origin = originOf(request)
  const groups = cacheGroups(head.headers, 'cache-group-invalidation')
  const tags = callTagsOption(config, 'invalidatedTags', natives) ?? []
  return [...groups.map((group) => groupSubject(origin, group)), ...tags.map(tagSubject)]
}

/** The tags in `Surrogate-Key` (separated by spaces) and in `Cache-Tag` (separated by commas). */
export function responseTags(headers: HeaderList): readonly string[] {
  const tags = new Set<string>()
  for (const [name, value] of headers) {
    if (name === 'surrogate-key') for (const tag of value.split(/[ \t]/)) tags.add(tag)
    if (name === 'cache-tag') for (const tag of value.split(',')) tags.add(trimOws(tag))
  }
  tags.delete('')
  return [...tags]
}

/**
 * Cache groups of a response (RFC 9875 §2), or those to purge (§3). A field that is not a List of
 * Strings is ignored (RFC 9651 §4.2). https://www.rfc-editor.org/rfc/rfc9875.html#section-2
 */
export function cacheGroups(
  headers: HeaderList,
  field: 'cache-groups' | 'cache-group-invalidation' = 'cache-groups',
): readonly string[] {
  const lines = headerValues(headers, field)
  if (lines.length === 0) return NONE
  const members = parseList(lines) ?? []
  const names = members.flatMap((member) => (member.type === 'string' ? [member.value] : []))
  return names.length === members.length ? [...new Set(names)] : []
}

/** The scheme and host to which cache groups belong (RFC 9875 §2.1). */
function originOf({ scheme, host }: RequestView): string {
  return `${scheme}://${host.toLowerCase()}`
}

/**
 * Caches that have emitted a warning, by option. One warning is enough, because a broken callback
 * fails each time.
 */
const warned = { tags: new WeakSet<object>(), invalidatedTags: new WeakSet<object>() }
const NAMES = { tags: 'tags', invalidatedTags: 'invalidateOn.tags' } as const
const OUTCOMES = { tags: 'the response was not stored', invalidatedTags: 'no tag was purged' }

/**
 * Returns the tags of one of the two options. If its callback throws or returns no tags, it emits a
 * warning and returns undefined.
 */
function callTagsOption<Native>(
  config: CacheConfig<Native>,
  option: 'tags' | 'invalidatedTags',
  natives: Natives | undefined,
): readonly string[] | undefined {
  const where = `${CACHE_FUNCTION}.${NAMES[option]}` as const
  try {
    return evaluateTags(where, config[option], ...(natives ?? []))
  } catch (cause) {
    if (warned[option].has(config)) return undefined
    warned[option].add(config)
    const error =
      cause instanceof StampedeError ? cause : callbackError(where, 'the function threw', cause)
    process.emitWarning(`${error.message}; ${OUTCOMES[option]}`, {
      type: 'StampedeTagsWarning',
      code: 'STAMPEDE_TAGS',
      detail: String(cause instanceof Error ? cause.stack : cause),
    })
    return undefined
  }
}
