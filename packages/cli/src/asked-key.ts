// The keys that the arguments of `get` and `why` name.

import { namedKeys, type requestKey } from '@stampede/core/operator'
import { flag, list, type Options, text, type Values } from './command.ts'
import { UsageError } from './errors.ts'

export const REQUEST_OPTIONS: Options = [
  ['--host NAME', 'the Host of the request, if it is not that of the URL'],
  ['--query RULE', 'the option query of stampedeCache: page,size or ignore:utm_source'],
  ['--vary NAME[:VALUE]', 'the option vary, with the value of the request', 'may be repeated'],
  ['--header NAME:VALUE', 'another field of the request', 'may be repeated'],
  ['--cookies RULE', 'the option cookies: ignore, or key:NAME'],
  ['--identity TEXT', 'what the option identity returns for the request'],
  ['--key TEXT', 'what the option key returns for the request'],
  ['--scan', 'look for variants in the names of all keys of the server, not in 10,000 of them'],
]

/** The fix for a URL that has variants. */
export const DESCRIBE = 'Describe the request with --header, --vary, --cookies, --identity or --key'

/** A request, and the options of its cache that change the key. */
export type AskedRequest = Parameters<typeof requestKey>[0]

export function isUrl(name: string): boolean {
  return /^https?:\/\//i.test(name)
}

/** Number of names in which `get` and `why` look for variants. */
export function namesToScan(values: Values): number {
  return flag(values, 'scan') ? Number.POSITIVE_INFINITY : 10_000
}

/** The request that the arguments describe. */
export function readRequest(url: string, values: Values): AskedRequest {
  if (!isUrl(url))
    throw new UsageError(`received ${url}; use a URL that begins with http:// or https://`)
  const [query, cookies] = [text(values, 'query'), text(values, 'cookies')]
  const vary = list(values, 'vary').map((field) => field.split(':', 1)[0]?.trim() ?? '')
  const fields = [
    ...list(values, 'vary').filter((each) => each.includes(':')),
    ...list(values, 'header'),
  ]
  return {
    url,
    headers: readHeaders(fields),
    host: text(values, 'host'),
    identity: text(values, 'identity'),
    key: text(values, 'key'),
    ...(query !== undefined && { query: ruleOf(query, 'ignore', (names) => ({ ignore: names })) }),
    ...(vary.length > 0 && { vary }),
    ...(cookies !== undefined && {
      cookies: cookies === 'ignore' ? 'ignore' : { key: readNames(cookies.replace(/^key:/, '')) },
    }),
  }
}

/** Internal keys of a name that is not a URL. A name that is an internal key is used as it is. */
export function keysOfName(name: string): string[] {
  return /^(d:[=j]|http:(GET|key) )/.test(name) ? [name] : [...namedKeys(name)]
}

function ruleOf<T>(
  rule: string,
  mark: string,
  marked: (names: string[]) => T,
): readonly string[] | T {
  return rule.startsWith(`${mark}:`)
    ? marked(readNames(rule.slice(mark.length + 1)))
    : readNames(rule)
}

function readNames(names: string): string[] {
  return names.split(',').filter((name) => name !== '')
}

/** Fields such as `accept: text/html`. Lines of one name are one field, as for Node. */
export function readHeaders(fields: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of fields.map(readField)) {
    const before = headers[name]
    const mark = name === 'cookie' ? '; ' : ', '
    headers[name] = before === undefined ? value : before + mark + value
  }
  return headers
}

function readField(field: string): [name: string, value: string] {
  const [, name, value] = /^([^:]+):(.*)$/.exec(field) ?? []
  if (name === undefined || value === undefined) {
    throw new UsageError(`received ${field}; use 'name: value'`)
  }
  return [name.trim().toLowerCase(), value.trimStart()]
}
