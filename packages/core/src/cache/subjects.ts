// Tags by which a response can be purged, from the `tags` option and from the response itself. They
// are read once, for a head that is to be stored. A response that cannot be named cannot be purged,
// so it is not stored.

import { callbackError, StampedeError } from '../errors.ts'
import { cacheGroups, responseTags } from '../http/response-tags.ts'
import type { CapturedHead, Natives, RequestView } from '../ports/exchange.ts'
import { groupSubject, tagSubject } from '../ports/subject.ts'
import { MOST_TAGS, tagsOf } from '../tags.ts'
import type { CacheConfig } from './cache-config.ts'
import { WHERE } from './cache-config.ts'
import type { NotStorable, Storable } from './storable.ts'

/** The same verdict with the subjects in it, beside those it has, or why not. Never throws. */
export function withSubjects(
  verdict: Storable,
  head: CapturedHead,
  request: RequestView,
  config: CacheConfig<never>,
  natives: Natives | undefined,
): Storable | NotStorable {
  const named = responseTags(head.headers)
  const groups = cacheGroups(head.headers)
  const tags = askForTags(config, 'tags', natives)
  if (tags === undefined) return { store: false, reason: 'tags', failure: false }
  if (named.length + groups.length + tags.length === 0) return verdict
  const subjects = new Set(verdict.subjects)
  for (const tag of named) subjects.add(tagSubject(tag))
  for (const group of groups) subjects.add(groupSubject(originOf(request), group))
  for (const tag of tags) subjects.add(tagSubject(tag))
  return subjects.size > MOST_TAGS ? TOO_MANY : { ...verdict, subjects: [...subjects] }
}

const TOO_MANY: NotStorable = { store: false, reason: 'too-many-tags', failure: false }

/** RFC 9875 §2.1: groups belong to one origin. */
export function originOf({ scheme, host }: RequestView): string {
  return `${scheme}://${host.toLowerCase()}`
}

/** Told of once per cache and callback: it fails for each request alike. */
const told = { tags: new WeakSet<object>(), invalidatedTags: new WeakSet<object>() }
const NAMES = { tags: 'tags', invalidatedTags: 'invalidateOn.tags' } as const
const OUTCOMES = { tags: 'the response was not stored', invalidatedTags: 'no tag was purged' }

/** What a callback of the user names; undefined, and a warning, when it threw or returned what is no tags. */
export function askForTags<Native>(
  config: CacheConfig<Native>,
  option: 'tags' | 'invalidatedTags',
  natives: Natives | undefined,
): readonly string[] | undefined {
  const where = `${WHERE}.${NAMES[option]}` as const
  try {
    return tagsOf(where, config[option], ...(natives ?? []))
  } catch (cause) {
    if (told[option].has(config)) return undefined
    told[option].add(config)
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
