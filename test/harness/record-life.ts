// The packed fields of a cache record, which tests use by name. `life` is the fence of the commit
// (`stored`), two moments and three durations. `lease` is `fence`, `until` and `token`. `last` is
// `pass`, `retry` and `failure`. A moment is `<end> <when it was set>`, or only its end.

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

/** Packs the lease and the last outcome. A waiting process is noted in `waiting`. */
export function withLease(fields: Fields, before: Record<string, string> = {}): Fields {
  const { token, until, fence, pass, retry, failure, ...rest } = { ...before, ...fields }
  const packed: Fields = Object.keys(rest).some((name) => name.startsWith('w:'))
    ? { ...rest, waiting: 1 }
    : rest
  if (token !== undefined) packed.lease = `${fence ?? 0} ${moment(until)} ${token}`
  else if (fence !== undefined) packed.lease = fence
  if (pass !== undefined || retry !== undefined) {
    packed.last = `${moment(pass)} ${moment(retry)} ${failure ?? ''}`
  }
  return packed
}

/** The fields of a cache record by name. */
export function namedLease(record: Record<string, string>): Record<string, string> {
  const { lease = '', last = '', waiting, ...fields } = record
  const [, fence, until, token] = /^(\d+)(?: (\d+ \d+) (.*))?$/.exec(lease) ?? []
  const [, pass, retry, failure] = /^(\d+ \d+) (\d+ \d+) (.*)$/s.exec(last) ?? []
  const named = {
    fence,
    until: timeOf(until),
    token,
    pass: timeOf(pass),
    retry: timeOf(retry),
    failure,
  }
  const known = Object.entries(named).filter(([, value]) => value !== undefined && value !== '')
  return { ...fields, ...(Object.fromEntries(known) as Record<string, string>) }
}

function moment(text: string | number | Buffer = 0): string {
  return `${text}`.includes(' ') ? `${text}` : `${text} 0`
}

function timeOf(moment: string | undefined): string | undefined {
  return moment === '0 0' ? undefined : moment?.replace(/ 0$/, '')
}
