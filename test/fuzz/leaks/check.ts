// Checks every response: it has no byte of another person, and a response for all is the same for
// all.

import { ABORTED, greeting, publicText } from './answers.ts'
import type { Received, Reply } from './client.ts'
import { cachesOf, type RequestSpec, type Scenario } from './scenario.ts'

export interface Exchange {
  readonly step: number
  readonly request: RequestSpec
  readonly reply: Reply
}

export interface Finding {
  readonly exchange: Exchange
  readonly what: string
}

/** Everything that is wrong with a response, in words. */
export function check(scenario: Scenario, exchange: Exchange): Finding[] {
  const { request, reply } = exchange
  // A request without a response is no leak, but it is wrong.
  if (reply === 'stuck') return [{ exchange, what: `person ${request.who} got no answer at all` }]
  if (reply === 'gone') return []
  const text = [reply.status, reply.reason, ...reply.raw, reply.body].join('\n')
  const findings: Finding[] = []
  scenario.people.forEach(({ secret }, index) => {
    if (index === request.who || !text.includes(secret)) return
    const place = reply.body.includes(secret) ? 'the body' : 'the head'
    const what = `person ${request.who} got what is person ${index}'s, in ${place}`
    findings.push({ exchange, what })
  })
  const wrong = [
    notWhole(scenario, request, reply),
    failedForAnother(scenario, request, reply),
    saidToCaches(scenario, request, reply),
    wrongFor(scenario, request, reply),
  ]
  for (const what of wrong) if (what !== undefined) findings.push({ exchange, what })
  return findings
}

const TO_CACHES = ['surrogate-key', 'cache-tag', 'stampede-cache-control']

/** Fields for this cache must not reach a client, not even the person they are about. */
function saidToCaches(
  { layers }: Scenario,
  { route, who }: RequestSpec,
  { headers }: Received,
): string | undefined {
  const name = TO_CACHES.find((each) => headers[each] !== undefined)
  if (name === undefined || cachesOf(layers, route).length === 0) return undefined
  return `person ${who} got ${name}, which is for caches`
}

/** A content coding or a 304 that does not fit this request. */
function wrongFor(
  { routes }: Scenario,
  { who, route, headers: sent }: RequestSpec,
  { status, headers }: Received,
): string | undefined {
  if (headers['content-encoding'] === 'gzip' && !/gzip/.test(sent['accept-encoding'] ?? ''))
    return `person ${who} got a coding that it cannot read`
  const asks = sent['if-none-match'] !== undefined || sent['if-modified-since'] !== undefined
  const may = routes[route]?.answers.some((answer) => answer.status === 304)
  const isOther = !asks || sent['if-none-match'] === '"other"'
  if (status === 304 && isOther && !may) return `person ${who} got a 304 to what it has not`
  return undefined
}

/**
 * A full response must be complete, and a part must be a part of it, however it was stored. A route
 * for all sends the same text to all people.
 */
function notWhole(
  { routes, people }: Scenario,
  { route, who, method, headers: sent }: RequestSpec,
  { status, headers, body, complete }: Received,
): string | undefined {
  const [answer] = routes[route]?.answers ?? []
  if (answer === undefined || method === 'HEAD' || !complete) return undefined
  const { about, pad } = answer
  const names = ['nobody', people[who]?.secret ?? '']
  const texts =
    about === undefined ? [publicText(route, pad)] : names.map((name) => greeting(route, name, pad))
  const wholes = [...texts, ...texts.map((text) => JSON.stringify({ text }))]
  if (status === 200 || status === 203) {
    return wholes.includes(body) ? undefined : `person ${who} got what is not the whole`
  }
  const [, start, last, length] =
    /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers['content-range'] ?? '') ?? []
  if (status !== 206 || length === undefined) return undefined
  if (sent.range === undefined) return `person ${who} got a part, and asked for the whole`
  // A part of a coded body cannot be decoded by itself.
  if (headers['content-encoding'] !== undefined) return undefined
  const fits = wholes.some(
    (text) =>
      text.length === Number(length) && text.slice(Number(start), Number(last) + 1) === body,
  )
  return fits ? undefined : `person ${who} got a part of something else`
}

/** If a handler fails only because its own client left, no other client may get that failure. */
function failedForAnother(
  { routes }: Scenario,
  { who, route }: RequestSpec,
  { status }: Received,
): string | undefined {
  const aborts = routes[route]?.answers.some((answer) => answer.aborts !== undefined)
  if (!aborts || status !== ABORTED) return undefined
  return `person ${who} got the failure of a request whose client had left`
}

/** Whether another request produced this response. */
export function isReused(reply: Reply): boolean {
  if (typeof reply === 'string') return false
  return /; (hit|collapsed)\b(?!=\?0)/.test(String(reply.headers['cache-status'] ?? ''))
}

/** Whether the cache asked the app with a condition, and the app answered 304. */
export function isUnchanged(reply: Reply): boolean {
  if (typeof reply === 'string') return false
  return /fwd-status=304/.test(String(reply.headers['cache-status'] ?? ''))
}

/** Whether the leader got a 206, 304 or 416 although its handler sent 200. */
export function isCut(reply: Reply): boolean {
  if (typeof reply === 'string' || ![206, 304, 416].includes(reply.status)) return false
  return /fwd-status=200/.test(String(reply.headers['cache-status'] ?? ''))
}
