// Path patterns of purges.

import { canonicalPath } from '../ports/key.ts'

/** A named part, such as `:id`. */
const PARAMETER = /^:[A-Za-z_]\w*$/
/** A wildcard for the rest of the path, such as `*` or `*rest`. It must be the last part. */
const REST = /^\*\w*$/

/** The problem of a pattern as part of an error message, or undefined if the pattern is valid. */
export function patternProblem(pattern: string): string | undefined {
  if (!pattern.startsWith('/')) return 'begin it with /'
  if (pattern.length > 1_000) return 'use at most 1 000 characters'
  const parts = partsOf(pattern)
  if (/[{}]|\?$|\?\//.test(pattern))
    return 'optional parts are not supported; purge it with the part and without'
  const invalid = parts.find((part, i) => !isPart(part, i === parts.length - 1))
  return invalid === undefined
    ? undefined
    : `use parts such as products, :id or, at the end, *rest; not ${JSON.stringify(invalid)}`
}

/** The pattern that a path with a wildcard probably means. Undefined: it has no wildcard. */
export function patternMeant(path: string): string | undefined {
  if (!/\*|\/:/.test(path)) return undefined
  const patterns = [path, path.replace(/\*\w*/g, ':id')]
  return patterns.find((each) => patternProblem(each) === undefined) ?? '/products/:id'
}

function isPart(part: string, isLast: boolean): boolean {
  if (REST.test(part)) return isLast
  return PARAMETER.test(part) || !/[:*(){}?+]/.test(part)
}

/** Whether a canonical path matches a valid pattern. Takes linear time. */
export function matchesPattern(pattern: string, path: string): boolean {
  const wanted = partsOf(pattern)
  const parts = partsOf(path)
  for (const [i, part] of wanted.entries()) {
    if (REST.test(part)) return parts.length >= i
    const actual = parts[i]
    if (actual === undefined || actual === '') return part === '' && wanted.length === parts.length
    if (!PARAMETER.test(part) && canonicalPath(part) !== actual) return false
  }
  return wanted.length === parts.length
}

function partsOf(path: string): string[] {
  const inner = path.slice(1)
  return (inner.endsWith('/') ? inner.slice(0, -1) : inner).split('/')
}
