// The `tags` option: names under which what is made can be purged, together with others.

import { optionError, show } from './errors.ts'

/** Tags, or what makes them of a value or a response; each is checked where it is used. */
export type TagsRule = readonly string[] | ((...args: never[]) => readonly string[]) | undefined

/** Each costs a little on every purge, and memory in every process that holds the entry. */
export const MOST_TAGS = 256

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readTags(where: string, value: unknown): TagsRule {
  if (value === undefined || typeof value === 'function') return value as TagsRule
  if (isTags(value)) return Object.freeze([...value])
  const fix = `use up to ${MOST_TAGS} names: ['product:42'], or a function that returns them`
  throw optionError(where, value, `${fix}${wrongOne(value)}`)
}

/** Throws what the callback threw, or that it returned no tags. */
export function tagsOf(where: string, rule: TagsRule, ...args: unknown[]): readonly string[] {
  if (typeof rule !== 'function') return rule ?? NONE
  const tags: unknown = (rule as (...all: unknown[]) => unknown)(...args)
  if (isTags(tags)) return [...new Set(tags)]
  // That of an async function may reject, which is nobody else's to hear of.
  if (tags instanceof Promise) tags.catch(() => {})
  throw optionError(where, tags, `return up to ${MOST_TAGS} names: ['product:42']${wrongOne(tags)}`)
}

/** Which of many is no name: usually what a template was to be made of. */
function wrongOne(tags: unknown): string {
  if (!Array.isArray(tags)) return ''
  const at = tags.findIndex((tag) => !isTag(tag))
  return at === -1 ? '' : `; [${at}] is ${show(tags[at])}`
}

const NONE: readonly string[] = []

function isTags(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= MOST_TAGS && value.every(isTag)
}

function isTag(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
