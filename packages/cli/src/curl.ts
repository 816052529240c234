// A curl command as a request, as browsers copy it ("Copy as cURL") and people type it.

import { parseArgs } from 'node:util'
import { split } from 'shlex'
import { UsageError } from './errors.ts'

/** A request, as the options `--header` and `--host` and the argument of `why` describe one. */
export interface CurlRequest {
  readonly url: string
  readonly method: string
  /** Fields such as `accept: text/html`. */
  readonly headers: readonly string[]
  readonly host: string | undefined
  /** The body, as far as it is known. Undefined if there is none. */
  readonly data: string | undefined
  /** Parts of the command that are not known here, such as the cookies in a file. */
  readonly notes: readonly string[]
}

/** Names of options with a value, with their short form. All other options are flags. */
const WITH_VALUE: Readonly<Record<string, string>> = {
  ...{ header: 'H', cookie: 'b', request: 'X', data: 'd', form: 'F', 'upload-file': 'T' },
  ...{ range: 'r', 'user-agent': 'A', referer: 'e', user: 'u', output: 'o', 'max-time': 'm' },
  ...{ proxy: 'x', 'write-out': 'w', 'cookie-jar': 'c', cert: 'E', 'time-cond': 'z', config: 'K' },
}
const WITH_LONG_VALUE = [
  ...['data-raw', 'data-binary', 'data-ascii', 'data-urlencode', 'json', 'url', 'oauth2-bearer'],
  ...['connect-timeout', 'resolve', 'connect-to', 'cacert', 'key', 'retry', 'proxy-user'],
]
const FLAGS: Readonly<Record<string, string>> = { get: 'G', head: 'I' }
const DATA = /^(data|data-raw|data-binary|data-ascii|data-urlencode|json)$/
/** The codings that most builds of curl accept with `--compressed`. */
const CODINGS = 'deflate, gzip, br, zstd'
/** Words after which another command begins. */
const END = /^(\||\|\||&&|;|&|>|>>|2>\S*)$/

/** Throws `UsageError` if the text is no curl command for one URL. */
export function parseCurl(text: string): CurlRequest {
  const { tokens, urls } = optionsOf(wordsOf(text))
  const all = (pattern: RegExp) => tokens.filter(({ name }) => pattern.test(name))
  const last = (pattern: RegExp) => all(pattern).at(-1)?.value
  const has = (name: string) => tokens.some((each) => each.name === name)
  const [url, ...more] = [...all(/^url$/).map(({ value }) => value), ...urls]
  if (url === undefined || more.length > 0)
    throw new UsageError(`--curl: received ${url ? 'several URLs' : 'no URL'}; use one`)
  const notes: string[] = []
  const data = all(DATA).map(({ name, value }) => dataOf(name, value, notes))
  const hasBody = !has('get') && (data.length > 0 || has('form'))
  const target = has('get') ? withQuery(url, data.join('&')) : url
  const fields = fieldsOf(all, last, has, notes)
  if (hasBody && fields.get('content-length') === undefined)
    fields.set('content-length', String(Buffer.byteLength(data.join('&'))))
  const implied = has('head') ? 'HEAD' : has('upload-file') ? 'PUT' : hasBody ? 'POST' : 'GET'
  const host = fields.get('host')
  fields.delete('host')
  return {
    url: /^[a-z][a-z0-9+.-]*:\/\//i.test(target) ? target : `http://${target}`,
    method: (last(/^request$/) ?? implied).toUpperCase(),
    headers: [...fields].map(([name, value]) => `${name}: ${value}`),
    host,
    data: hasBody ? data.join('&') : undefined,
    notes,
  }
}

function wordsOf(text: string): string[] {
  if (/^\s*curl(\.exe)?\s+\^"|\^\r?\n/.test(text))
    throw new UsageError('--curl: this is the form for cmd; copy the one for bash')
  let words: string[]
  try {
    words = split(text.replace(/\\\r?\n/g, ' '))
  } catch {
    throw new UsageError('--curl: a quotation mark is not closed')
  }
  const end = words.findIndex((word) => END.test(word))
  if (end !== -1) words = words.slice(0, end)
  if (words[0] === '$') words.shift()
  if (!/^curl(\.exe)?$/.test(words[0] ?? ''))
    throw new UsageError(`--curl: received ${words[0] ?? 'nothing'}; begin with curl`)
  return words.slice(1)
}

interface Token {
  readonly name: string
  readonly value: string
}

function optionsOf(args: string[]): { tokens: Token[]; urls: string[] } {
  const string = { type: 'string' as const, multiple: true }
  const options = Object.fromEntries([
    ...Object.entries(WITH_VALUE).map(([name, short]) => [name, { ...string, short }] as const),
    ...WITH_LONG_VALUE.map((name) => [name, string] as const),
    ...Object.entries(FLAGS).map(
      ([name, short]) => [name, { type: 'boolean' as const, short }] as const,
    ),
  ])
  const { tokens } = parseArgs({
    args,
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  return {
    tokens: tokens.flatMap((token) =>
      token.kind === 'option' ? [{ name: token.name, value: token.value ?? '' }] : [],
    ),
    urls: tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : [])),
  }
}

/** The fields of the request, by their lower-case names. */
function fieldsOf(
  all: (pattern: RegExp) => readonly Token[],
  last: (pattern: RegExp) => string | undefined,
  has: (name: string) => boolean,
  notes: string[],
): Map<string, string> {
  const fields = new Map([['accept', has('json') ? 'application/json' : '*/*']])
  const set = (name: string, value: string | undefined) => {
    if (value !== undefined) fields.set(name, value)
  }
  const user = last(/^user$/)
  set('user-agent', last(/^user-agent$/))
  set('referer', last(/^referer$/))
  set('authorization', user && `Basic ${Buffer.from(user).toString('base64')}`)
  set('authorization', last(/^oauth2-bearer$/)?.replace(/^/, 'Bearer '))
  set('range', last(/^range$/)?.replace(/^/, 'bytes='))
  set('accept-encoding', has('compressed') ? CODINGS : undefined)
  const cookies = all(/^cookie$/).map(({ value }) => value)
  const pairs = cookies.filter((each) => each.includes('=') || each === '')
  for (const file of cookies.filter((each) => !pairs.includes(each)))
    notes.push(`the cookies of the file ${file} are not read; add them with --header`)
  set('cookie', pairs.filter((each) => each !== '').join('; ') || undefined)
  const seen = new Set<string>()
  for (const { value } of all(/^header$/)) {
    const [, written, mark, content] = /^([^:;]+)([:;])(.*)$/s.exec(value) ?? []
    if (written === undefined || content === undefined) {
      notes.push(`--header ${value} is ignored: it is no field`)
      continue
    }
    const name = written.trim().toLowerCase()
    // `Name:` removes a field that curl would add, and `Name;` sends it without a value.
    if (mark === ':' && content.trim() === '') fields.delete(name)
    else {
      const before = seen.has(name) ? fields.get(name) : undefined
      const joint = name === 'cookie' ? '; ' : ', '
      fields.set(name, (before === undefined ? '' : before + joint) + content.trim())
      seen.add(name)
    }
  }
  return fields
}

function dataOf(name: string, value: string, notes: string[]): string {
  if (value.startsWith('@') && name !== 'data-raw') {
    notes.push(`the data of the file ${value.slice(1)} is not read`)
    return ''
  }
  if (name !== 'data-urlencode') return value
  const at = value.indexOf('=')
  return at < 1
    ? encodeURIComponent(value.slice(at + 1))
    : `${value.slice(0, at)}=${encodeURIComponent(value.slice(at + 1))}`
}

function withQuery(url: string, query: string): string {
  const bare = url.replace(/#.*$/s, '')
  return query === '' ? bare : `${bare}${bare.includes('?') ? '&' : '?'}${query}`
}
