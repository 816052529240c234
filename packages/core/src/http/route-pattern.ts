// Paths and patterns of paths, as a purge names them. Purging a little too much is harmless, so both are compared without
// regard to case, to percent-encoding and to a slash at the end.

/** `/Products/42/` and `/products/%34%32` are one path here; an encoded slash stays in its part. Never throws. */
export function canonicalPath(path: string): string {
  const plain = path.includes('%') ? path.split('/').map(decodedPart).join('/') : path
  const lower = plain.toLowerCase()
  return lower.length > 1 && lower.endsWith('/') ? lower.slice(0, -1) : lower
}

/** A part that is no valid encoding of anything stands for itself. */
function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('/', '%2f')
  } catch {
    return part
  }
}

/** A named part of a path (`:id`), or, as the last part, all that follows (`*`, `*rest`). */
const PARAMETER = /^:[A-Za-z_]\w*$/
const REST = /^\*\w*$/

/** Why a pattern cannot be used; undefined: it can. */
export function patternProblem(pattern: string): string | undefined {
  if (!pattern.startsWith('/')) return 'begin it with /'
  if (pattern.length > 1_000) return 'use at most 1 000 characters'
  const parts = partsOf(pattern)
  if (/[{}]|\?$|\?\//.test(pattern))
    return 'for a part that may be missing, purge it with the part and without'
  const wrong = parts.findIndex((part, i) => !isPart(part, i === parts.length - 1))
  return wrong === -1
    ? undefined
    : `use parts such as products, :id or, at the end, *rest; not ${JSON.stringify(parts[wrong])}`
}

function isPart(part: string, isLast: boolean): boolean {
  if (REST.test(part)) return isLast
  return PARAMETER.test(part) || !/[:*(){}?+]/.test(part)
}

/** Whether a canonical path is one of a valid pattern's. In time linear in both. */
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
