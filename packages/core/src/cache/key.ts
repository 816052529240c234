// Stage: the key, under which two requests share an answer. Whatever a handler may tell apart must
// be apart here. Every part carries its length, so that no part can run into the next one.

import { callbackError, show } from '../errors.ts'
import { requestField, someField } from '../http/headers.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'
import { escapeKey, VARIANT_MARK } from '../ports/key.ts'
import type { CacheConfig } from './cache-config.ts'

/** Begins every key of an HTTP response; keys of data begin otherwise. */
export const HTTP_KEY_PREFIX = 'http:'

/**
 * RFC 9111 §2 and §4.1. `learnedVary` are the request headers earlier responses named, as
 * varyNames gives them.
 * Throws `ERR_STAMPEDE_OPTION` when `key` or `identity` throws or returns no string.
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
      : customKey(ask('key', config.key, native))
  let variant =
    config.key === undefined ? hostPart(request) + claimsPart(request) + rewrittenPart(request) : ''
  if (learnedVary.length > 0 || config.vary.length > 0) {
    variant += varyPart(union(config.vary, learnedVary), request.headers)
  }
  if (typeof config.cookies === 'object') variant += cookiePart(config.cookies.key, request.headers)
  if (config.identity !== undefined) {
    variant += `i${callerField(ask('identity', config.identity, native))}`
  }
  return variant === '' ? group : group + VARIANT_MARK + variant
}

type Url = Pick<RequestView, 'scheme' | 'host' | 'target'>

/**
 * The key of a URL when nothing else is in it: the group of all its variants. HEAD is answered from
 * the entry of GET, so both have its key.
 */
export function urlKey({ scheme, host, target }: Url, rule: CacheConfig['query']): string {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  const query = mark === -1 ? '' : queryPart(target.slice(mark + 1), rule)
  return `${HTTP_KEY_PREFIX}GET ${field(scheme)}${field(host.toLowerCase())}${field(path)}${field(query)}`
}

/**
 * What frameworks, apps and the libraries they use read in the place of the host, the scheme or the path, whether or not a
 * trusted proxy said it.
 */
export const CLAIMS: ReadonlySet<string> = new Set([
  ...['x-forwarded-host', 'x-original-host', 'x-host', 'x-http-host-override'],
  ...['x-original-forwarded-host', 'x-forwarded-server', 'forwarded'],
  ...['x-forwarded-proto', 'x-forwarded-protocol', 'x-forwarded-scheme', 'x-forwarded-ssl'],
  ...['x-url-scheme', 'front-end-https', 'x-forwarded-port', 'x-arr-ssl'],
  ...['cf-visitor', 'cloudfront-forwarded-proto'],
  ...['x-forwarded-prefix', 'x-forwarded-path', 'x-forwarded-uri', 'x-forwarded-context'],
  ...['x-original-url', 'x-original-uri', 'x-rewrite-url', 'x-envoy-original-path'],
  'x-script-name',
])

/**
 * The request's own `Host`, `:authority` and TLS server name, where they are not exactly the known
 * host in lower case. They differ behind a trusted proxy, and if a client spells the host in its
 * own way. Handlers may read either, so both are in the key.
 */
function hostPart({ host, headers, servername }: RequestView): string {
  const known = host.toLowerCase()
  const { ':authority': authority, host: said } = headers
  let part = ''
  if (authority !== undefined && authority !== known) part += saidPart(':authority', authority)
  if (said !== undefined && said !== known) part += saidPart('host', said)
  if (servername !== undefined && !isNameIn(known, servername))
    part += saidPart('servername', servername)
  return part
}

/** `known` may have a port, `name` has none. */
function isNameIn(known: string, name: string): boolean {
  return known === name || (known[name.length] === ':' && known.startsWith(name))
}

function saidPart(name: string, value: string | string[]): string {
  return `f${field(name)}${field(String(value))}`
}

/** Without these, one client could have links and redirects to anywhere stored for all. Behind one proxy they are always the same. */
function claimsPart({ scheme, host, headers }: RequestView): string {
  if (!someField(headers, CLAIMS)) return ''
  let part = ''
  for (const name of CLAIMS) {
    const value = headers[name] === undefined ? undefined : requestField(headers, name)
    if (value === undefined) continue
    const isHost = name === 'x-forwarded-host' && value === host.toLowerCase()
    const isScheme = name === 'x-forwarded-proto' && value === 'https' && scheme === value
    if (!isHost && !isScheme) part += saidPart(name, value)
  }
  return part
}

/** SPA fallbacks, language prefixes: what the app will see, where it is not what the client sent. */
function rewrittenPart({ rewritten }: RequestView): string {
  return rewritten === undefined ? '' : `r${field(rewritten)}`
}

function field(text: string): string {
  return `${text.length}:${text}`
}

/** A string of the user's code: kept apart from every other, also as UTF-8 and beside NUL. */
function callerField(text: string): string {
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
 * RFC 6265 §4.2: every pair that some parser may read a keyed name in, as sent: parsers differ in which of two they take,
 * and in what they strip. Only the spaces in front are nothing to all of them.
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

/** Handlers stop reading at some number of parameters; what is beyond is neither sorted nor dropped. */
const MOST_PARAMETERS = 100

/**
 * The query as received, with parameters sorted by the name a parser reads; those of one name stay
 * in order, because `a=1&%61=2` and `%61=2&a=1` are two different lists. Unsorted where parsers
 * disagree about names: `;` separates in some, and bad escapes fall together in others. Unsorted
 * too if it has another `?`: some parsers skip a leading `?`, others begin after the last one.
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
    // Where a name begins with a bracket, parsers find one of their own: `[]` and `[][a]` are parts of one list.
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

/** A parameter is dropped only if no parser could read one in it that counts. */
function isDropped(text: string, rule: CacheConfig['query']): boolean {
  if ('ignore' in rule) {
    return text.split(';').every((piece) => rule.ignore.includes(decodedName(piece) ?? ''))
  }
  return !text.split(';').some((piece) => {
    const base = baseName(decodedName(piece) ?? asciiDecoded(piece))
    // Where `a[b]` counts, `a` and `a[b][c]` do: for some parsers they are one.
    return rule.only.some((name) => baseName(name) === base)
  })
}

/** What no decoder takes as a whole is taken as it stands by some (`a[%ZZ]` by qs), and lands in `a` all the same. */
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

/** `a[]`, `a[b]`, `[a]`, `a.b`: all of them may land in `a`, and then their order counts. */
function baseName(name: string): string {
  return /[^[\].=]+/.exec(name)?.[0] ?? ''
}

function ask<Native>(
  option: 'key' | 'identity',
  callback: (request: Native) => string,
  native: Native,
): string {
  let answer: unknown
  try {
    answer = callback(native)
  } catch (cause) {
    throw callbackError(option, 'the function threw', cause)
  }
  if (typeof answer === 'string') return answer
  throw callbackError(
    option,
    `the function returned ${show(answer)}; return a string for every request`,
  )
}

/** The key of a route whose `key` option returned `text`, when nothing else is in its key. */
export function customKey(text: string): string {
  return `${HTTP_KEY_PREFIX}key ${callerField(text)}`
}
