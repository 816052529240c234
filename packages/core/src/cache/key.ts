// The key of a request. Requests with equal keys share a response. So two requests that a
// handler may treat differently must have different keys. Every part begins with its length, so
// that different parts never join to equal keys.

import { callbackError, show } from '../errors.ts'
import { ADDRESS_FIELDS, requestField } from '../http/headers.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'
import { escapeKey, VARIANT_SEPARATOR } from '../ports/key.ts'
import type { CacheConfig } from './cache-options.ts'

/** Prefix of the keys of HTTP responses. Keys of data have another one. */
export const HTTP_KEY_PREFIX = 'http:'

/**
 * The cache key (RFC 9111 §2 and §4.1). `learnedVary` are the request headers in the `Vary` fields
 * of earlier responses, in the form that varyNames returns. Throws `ERR_STAMPEDE_OPTION` if `key`
 * or `identity` throws or returns no string.
 */
export function cacheKey<Native>(
  request: RequestView,
  native: Native,
  config: CacheConfig<Native>,
  learnedVary: readonly string[],
): string {
  const group =
    config.key === undefined
      ? urlKey(request, config.query)
      : customKey(calledText('key', config.key, native))
  let variant = request.content === undefined ? '' : `q${field(request.content.digest)}`
  if (config.key === undefined) {
    variant += hostPart(request) + addressPart(request)
    // The URL that the handler sees, if the app rewrote it, as for a language prefix.
    if (request.rewritten !== undefined) variant += `r${field(request.rewritten)}`
    // Why the framework chose the handler, if the URL alone does not decide.
    if (request.chosenBy !== undefined) variant += `h${field(request.chosenBy)}`
  }
  if (learnedVary.length > 0 || config.vary.length > 0) {
    variant += varyPart(union(config.vary, learnedVary), request.headers)
  }
  if (typeof config.cookies === 'object') variant += cookiePart(config.cookies.key, request.headers)
  if (config.identity !== undefined) {
    variant += `i${appText(calledText('identity', config.identity, native))}`
  }
  return variant === '' ? group : group + VARIANT_SEPARATOR + variant
}

/** Whether an option adds this request field, or the caller that it names, to the key. */
export function isKeyed(config: CacheConfig<never>, name: string): boolean {
  if (config.identity !== undefined || config.vary.includes(name)) return true
  return name === 'cookie' && typeof config.cookies === 'object'
}

/** Undefined if the text is no URL. */
export function parseUrl(text: string, base?: URL): URL | undefined {
  return URL.canParse(text, base?.href) ? new URL(text, base) : undefined
}

type Url = Pick<RequestView, 'scheme' | 'host' | 'target'>

/**
 * The key of a URL, without the parts for its variants (`Vary`, cookies, identity). It also names
 * the vary group, which is the URL with all of its variants. HEAD requests are served from the
 * entry of GET, so both have the same key. A QUERY is a variant by its body, so a purge of the URL
 * purges it too.
 */
export function urlKey({ scheme, host, target }: Url, rule: CacheConfig['query']): string {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  const query = mark === -1 ? '' : queryPart(target.slice(mark + 1), rule)
  return `${HTTP_KEY_PREFIX}GET ${field(scheme)}${field(host.toLowerCase())}${field(path)}${field(query)}`
}

/**
 * The `Host`, `:authority` and TLS server name of the request. Each of them is left out if it
 * equals `host` in lower case. They differ behind a trusted proxy, and if the client uses capitals.
 * A handler may read any of these names.
 */
function hostPart({ host, headers, servername }: RequestView): string {
  const known = host.toLowerCase()
  const { ':authority': authority, host: own } = headers
  let part = ''
  if (authority !== undefined && authority !== known) part += headerPart(':authority', authority)
  if (own !== undefined && own !== known) part += headerPart('host', own)
  if (servername !== undefined && !isNameOf(known, servername))
    part += headerPart('servername', servername)
  return part
}

/** Whether the host `known`, which may have a port, has this host name. */
function isNameOf(known: string, name: string): boolean {
  return known === name || (known[name.length] === ':' && known.startsWith(name))
}

function headerPart(name: string, value: string | string[]): string {
  return `f${field(name)}${field(String(value))}`
}

/**
 * The `ADDRESS_FIELDS` of the request, if they differ from its host and scheme. Without them in the
 * key, one client could make the handler write links and redirects to another host, which all
 * clients would get. A proxy sends the same values with every request, so they cost no extra
 * entries.
 */
function addressPart({ scheme, host, headers }: RequestView): string {
  // The fields of a request are fewer than these names, and hardly any request has one of them.
  let hasField = false
  for (const name in headers) if (ADDRESS_FIELDS.has(name)) hasField = true
  if (!hasField) return ''
  let part = ''
  for (const name of ADDRESS_FIELDS) {
    const value = headers[name] === undefined ? undefined : requestField(headers, name)
    if (value === undefined) continue
    const isHost = name === 'x-forwarded-host' && value === host.toLowerCase()
    const isScheme = name === 'x-forwarded-proto' && value === 'https' && scheme === value
    if (name === 'forwarded') part += forwardedPart(value, host.toLowerCase(), scheme)
    else if (!isHost && !isScheme) part += headerPart(name, value)
  }
  return part
}

/** One parameter of `Forwarded`, and the end of it. Proxies send ports and IPv6 without quotes. */
const PARAMETER =
  /[ \t]*([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[\w!#$%&'*+.^`|~:[\]-]*)[ \t]*([;,]|$)/y

/**
 * `Forwarded` (RFC 7239) without `for` and `by`, which differ for each client. It is left out if
 * the rest names the known host and scheme. Handlers may read any hop, so if one has another host,
 * all hops are in the key. A field that does not parse is in the key as a whole.
 */
function forwardedPart(value: string, host: string, scheme: string): string {
  const same = scheme === 'https' ? [`host=${host}`, 'proto=https'] : [`host=${host}`]
  let rest = ''
  let isSame = true
  PARAMETER.lastIndex = 0
  do {
    const [found, name = '', text = '', end] = PARAMETER.exec(value) ?? []
    if (found === undefined) return headerPart('forwarded', value)
    // A handler that does not know quotes may find another parameter in a quoted value.
    const isDropped = /^(for|by)$/i.test(name) && !/[=;\\]/.test(text)
    if (!isDropped) rest += field(`${name}=${text}`)
    isSame &&= isDropped || same.includes(`${name}=${text}`)
    if (end === ',') rest += ','
  } while (PARAMETER.lastIndex < value.length)
  return isSame ? '' : headerPart('forwarded, parsed', rest)
}

function field(text: string): string {
  return `${text.length}:${text}`
}

/** A string that the app returned. It is escaped, because it may have NUL or lone surrogates. */
function appText(text: string): string {
  return field(escapeKey(text))
}

function varyPart(names: readonly string[], headers: RequestView['headers']): string {
  let part = ''
  for (const [name, value] of selectFields(names, headers)) {
    part += `v${field(name)}${value === null ? '-' : field(value)}`
  }
  return part
}

function union(configured: readonly string[], learned: readonly string[]): readonly string[] {
  if (learned.length === 0) return configured
  if (configured.length === 0) return learned
  return [...new Set([...configured, ...learned])].sort()
}

/**
 * The pairs of the Cookie field (RFC 6265 §4.2), as sent, that some parser could take for a cookie
 * of the `cookies` option. If a name occurs twice, some parsers use the first pair and others the
 * last. Parsers also trim different characters, but all trim leading spaces.
 */
function cookiePart(names: readonly string[], headers: RequestView['headers']): string {
  const pairs = (requestField(headers, 'cookie') ?? '').split(';').map((p) => p.replace(/^ +/, ''))
  let part = ''
  for (const name of names) {
    part += `c${field(name)}`
    for (const pair of pairs) if (pair.split('=', 1)[0]?.trim() === name) part += field(pair)
  }
  return part
}

/**
 * A query with more parameters is neither sorted nor filtered. Parsers ignore the parameters after
 * some number, so their order decides which ones a handler sees.
 */
const MOST_PARAMETERS = 100

/**
 * The query, with its parameters sorted by decoded name. Parameters of one name keep their order,
 * because `a=1&%61=2` and `%61=2&a=1` are two different lists.
 *
 * A query stays unsorted if parsers disagree about its names. Some parsers treat `;` as a
 * separator. Some decode different invalid escapes to one name. If the query contains another `?`,
 * some skip a leading `?`, and others begin after the last `?`.
 */
function queryPart(raw: string, rule: CacheConfig['query']): string {
  const dropsNothing = 'ignore' in rule && rule.ignore.length === 0
  if (raw === '' || (dropsNothing && !raw.includes('&')) || raw.includes('?')) return raw
  const texts = raw.split('&')
  if (texts.length > MOST_PARAMETERS) return raw
  const kept = dropsNothing ? texts : texts.filter((text) => !isDropped(text, rule))
  const named: Array<{ text: string; base: string }> = []
  let inOrder = true
  let last = ''
  for (const text of kept) {
    const name = text.includes(';') ? undefined : decodedName(text)
    // Parsers disagree about names that begin with a bracket: `[]` and `[][a]` may form one list.
    if (name === undefined || /^[[\].=]/.test(name)) return kept.join('&')
    const base = baseName(name)
    if (base < last) inOrder = false
    last = base
    named.push({ text, base })
  }
  if (inOrder) return kept.join('&')
  named.sort((a, b) => (a.base < b.base ? -1 : Number(a.base > b.base)))
  return named.map(({ text }) => text).join('&')
}

/** Whether this text is not in the key: every parser finds only excluded parameters in it. */
function isDropped(text: string, rule: CacheConfig['query']): boolean {
  if ('ignore' in rule) {
    return text.split(';').every((piece) => rule.ignore.includes(decodedName(piece) ?? ''))
  }
  return !text.split(';').some((piece) => {
    const base = baseName(decodedName(piece) ?? asciiDecoded(piece))
    // If `a[b]` is in the key, so are `a` and `a[b][c]`: for some parsers they are one parameter.
    return rule.only.some((name) => baseName(name) === base)
  })
}

/**
 * Decodes only the ASCII escapes of a text that also has invalid escapes. Some parsers do not
 * decode such a name: qs assigns `a[%ZZ]` to `a`.
 */
function asciiDecoded(text: string): string {
  return text
    .replaceAll('+', ' ')
    .replace(/%([0-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function decodedName(text: string): string | undefined {
  const end = text.indexOf('=')
  const name = end === -1 ? text : text.slice(0, end)
  if (!name.includes('%') && !name.includes('+')) return name
  try {
    return decodeURIComponent(name.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/**
 * Returns `a` for `a`, `a[]`, `a[b]`, `[a]` and `a.b`. Parsers may assign all of these parameters
 * to `a`, so their order matters.
 */
function baseName(name: string): string {
  return /[^[\].=]+/.exec(name)?.[0] ?? ''
}

function calledText<Native>(
  option: 'key' | 'identity',
  callback: (request: Native) => unknown,
  native: Native,
): string {
  const text = callOption(option, callback, native)
  if (typeof text === 'string') return text
  throw callbackError(
    option,
    `the function returned ${show(text)}; return a string for every request`,
  )
}

/** The result of a callback that must not be async. Throws `ERR_STAMPEDE_OPTION` if it throws. */
export function callOption<Native>(
  option: 'key' | 'identity' | 'bypass' | 'query.body',
  callback: (request: Native) => unknown,
  native: Native,
): unknown {
  try {
    const result = callback(native)
    // A rejection of this promise must not crash the process.
    if (result instanceof Promise) result.catch(() => {})
    return result
  } catch (cause) {
    throw callbackError(option, 'the function threw', cause)
  }
}

/** The key for a `text` that the `key` option returned, without the parts for variants. */
export function customKey(text: string): string {
  return `${HTTP_KEY_PREFIX}key ${appText(text)}`
}
