// The parts of the key of a variant: the values of `Vary` fields, cookies and so on, for readers.

import { shownKey } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'

const KINDS = new Map(
  Object.entries({
    ...{ v: 'vary', f: 'field', c: 'cookie', i: 'identity', r: 'path', h: 'handler', q: 'body' },
  }),
)

/**
 * The parts by which a variant differs from the other variants of its group. `text` is such as
 * `accept-language: de`, `cookie lang=de` or `identity ann`.
 */
export function variantParts(internalKey: string): { kind: string; name: string; text: string }[] {
  const parts = []
  // An absent field of `Vary` has a hyphen.
  const size = /^(\d+):|^-/
  let rest = internalKey.slice(groupOf(internalKey).length + 1)
  for (;;) {
    const kind = KINDS.get(rest[0] ?? '')
    if (kind === undefined) return parts
    const texts: string[] = []
    rest = rest.slice(1)
    for (let found = size.exec(rest); found !== null; found = size.exec(rest)) {
      const end = found[0].length + Number(found[1] ?? 0)
      if (found[1] !== undefined) texts.push(rest.slice(found[0].length, end))
      rest = rest.slice(end)
    }
    const [first = '', ...values] = texts
    // An identity is escaped like a key of `getOrSet`.
    const name = kind === 'identity' ? shownKey(`d:${first}`) : first
    const value = values.length > 0 ? values.join('; ') : undefined
    const field = `${name}: ${value ?? '(absent)'}`
    const other = `${kind} ${kind === 'cookie' ? (value ?? `${name} (absent)`) : name}`
    parts.push({ kind, name, text: /vary|field/.test(kind) ? field : other })
  }
}
