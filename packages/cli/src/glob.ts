// Patterns of names: `*` is any text, and `?` is one character.

/** Whether the pattern matches the whole name. Takes at most the product of both lengths. */
export function matchesGlob(pattern: string, name: string): boolean {
  let [at, next] = [0, 0]
  /** The last `*`, and the end of the text that it covers. */
  let [star, covered] = [-1, 0]
  while (next < name.length) {
    const wanted = pattern[at]
    if (wanted === '*') {
      star = at
      at += 1
      covered = next
    } else if (wanted !== undefined && (wanted === '?' || wanted === name[next])) {
      at += 1
      next += 1
    } else if (star === -1) return false
    else {
      covered += 1
      at = star + 1
      next = covered
    }
  }
  while (pattern[at] === '*') at += 1
  return at === pattern.length
}
