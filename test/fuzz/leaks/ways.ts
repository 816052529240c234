// The ways in which the frameworks let a handler respond. Each has a writer of that name.

import type { FrameworkName } from './scenario.ts'

const NODE = ['end', 'write', 'head-object', 'head-array', 'append', 'stream', 'flush']
const EXPRESS = [...NODE, 'send', 'send', 'json', 'send-buffer', 'redirect']
const KOA2 = ['text', 'text', 'buffer', 'object', 'stream', 'raw', 'throw']
const KOA3 = [...KOA2, 'web-stream', 'blob']

/** Ways with a status or a body of their own are for responses about one person only. */
const OWN_BODY = ['redirect', 'throw']

export function waysOf(framework: FrameworkName, personal: boolean): readonly string[] {
  const all = {
    express5: EXPRESS,
    express4: EXPRESS,
    koa3: KOA3,
    koa2: KOA2,
    node: NODE,
    front: EXPRESS,
  }[framework]
  return personal ? all : all.filter((way) => !OWN_BODY.includes(way))
}

/** One value for each name, as setHeader takes them. */
export function groupedFields(
  fields: ReadonlyArray<readonly [name: string, value: string]>,
): Array<[name: string, value: string | string[]]> {
  const grouped = new Map<string, string[]>()
  for (const [name, value] of fields) grouped.set(name, [...(grouped.get(name) ?? []), value])
  return [...grouped].map(([name, values]) => [name, values.length === 1 ? `${values[0]}` : values])
}

/**
 * One line for each name. For writeHead, Node 20 keeps only the last value of a name that is
 * repeated in an array.
 */
export function joinedFields(
  fields: ReadonlyArray<readonly [name: string, value: string]>,
): Array<[name: string, value: string]> {
  return groupedFields(fields).map(([name, value]) => [name, [value].flat().join(', ')])
}
