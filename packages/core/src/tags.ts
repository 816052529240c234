// The option `tags`: names of entries, so that one purge covers all entries of a tag.

import { optionError, show } from './errors.ts'
import type { Reader } from './options.ts'

/** The option of stampedeCache. */
export interface ResponseTags<Native, NativeResponse> {
  /**
   * Names by which `purge({ tag })` finds entries: `['products']`, or a function. The function is
   * called once the head of a storable response is known. If it throws, that response is not
   * stored. A response is stored with at most 256 names, including those in its `Surrogate-Key`,
   * `Cache-Tag` and `Cache-Groups` fields. A 304 may add names, up to 512. Default: none.
   */
  tags?: Tags<[request: Native, response: NativeResponse]> | undefined
}

/** The option of getOrSet. */
export interface ValueTags<T> {
  /**
   * Names for `purge({ tag })`, which purges all values with that name. At most 256. A function
   * gets the value in the form that callers get. Default: none.
   */
  tags?: Tags<[value: T]> | undefined
}

/** Tags, or a function that returns the tags of a value or a response. */
export type Tags<Args extends unknown[]> =
  | readonly string[]
  | ((...args: Args) => readonly string[])

/** The checked option. */
export interface TagsConfig {
  readonly tags: TagsRule
}
export type TagsRule = Tags<never[]> | undefined

/**
 * Limit of tags of an entry. Each tag costs memory in each process with a copy, and time on each
 * purge.
 */
export const MOST_TAGS = 256

/** Response fields with tags or cache groups. */
export const SUBJECT_FIELDS: ReadonlySet<string> = new Set([
  'surrogate-key',
  'cache-tag',
  'cache-groups',
])

/** Checks the option. Throws `ERR_STAMPEDE_OPTION`. */
export function readTags(where: string, value: unknown): TagsRule {
  if (value === undefined || typeof value === 'function') return value as TagsRule
  if (isTags(value)) return Object.freeze([...value])
  const fix = `use up to ${MOST_TAGS} names: ['product:42'], or a function that returns them`
  throw optionError(where, value, `${fix}${firstInvalid(value)}`)
}

export const TAGS: { readonly tags: Reader<TagsRule> } = { tags: readTags }

/**
 * The tags of one entry. Throws the error of the callback, or `ERR_STAMPEDE_OPTION` if it returned
 * no valid tags.
 */
export function evaluateTags(where: string, rule: TagsRule, ...args: unknown[]): readonly string[] {
  if (typeof rule !== 'function') return rule ?? NONE
  const tags: unknown = (rule as (...all: unknown[]) => unknown)(...args)
  if (isTags(tags)) return [...new Set(tags)]
  // An async function is an error here. A rejection of its promise must not crash the process.
  if (tags instanceof Promise) tags.catch(() => {})
  throw optionError(
    where,
    tags,
    `return up to ${MOST_TAGS} names: ['product:42']${firstInvalid(tags)}`,
  )
}

/** Message part about the first invalid tag, which is often an undefined variable. */
function firstInvalid(tags: unknown): string {
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
