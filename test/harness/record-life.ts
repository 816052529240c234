// The life of an entry in its record: one field of six values. They are the fence of its commit
// (`stored`), two moments and three durations. Tests use them by name.

type Fields = Record<string, string | number | Buffer>

const PARTS = ['stored', 'made', 'fresh', 'swr', 'sie', 'keep'] as const

/** Joins the values of a life into its field. Missing values come from `before`, or are 0. */
export function withLife(fields: Fields, before = ''): Fields {
  const named = PARTS.filter((part) => part in fields)
  if (named.length === 0) return fields
  const known = lifeOf(before)
  const parts: Fields = { ...known, ...fields }
  const life = PARTS.map((part) => parts[part] ?? 0).join(' ')
  const others = Object.entries(fields).filter(([name]) => !named.some((part) => part === name))
  return { ...Object.fromEntries(others), life }
}

/** Splits the life of a record into fields by name. */
export function namedLife({ life, ...fields }: Record<string, string>): Record<string, string> {
  return life === undefined ? fields : { ...fields, ...lifeOf(life) }
}

function lifeOf(life: string): Record<string, string> {
  const values = life.split(' ')
  if (values.length !== PARTS.length) return {}
  return Object.fromEntries(PARTS.map((part, i) => [part, values[i] ?? '']))
}
