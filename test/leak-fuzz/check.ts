// What must be so of every answer: nothing of anybody else is in it, and what is for all is the same for all.

import { publicText } from './answers.ts'
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

/** Everything that is wrong with an answer, in words. */
export function check(scenario: Scenario, exchange: Exchange): Finding[] {
  const { request, reply } = exchange
  // A request that nobody answers is no leak, and wrong all the same.
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
    wrongForAll(scenario, request, reply),
    saidToCaches(scenario, request, reply),
    wrongFor(scenario, request, reply),
  ]
  for (const what of wrong) if (what !== undefined) findings.push({ exchange, what })
  return findings
}

const TO_CACHES = ['surrogate-key', 'cache-tag', 'stampede-cache-control']

/** What a handler says to this cache alone is no client's, be it its own. */
function saidToCaches(
  { layers }: Scenario,
  { route, who }: RequestSpec,
  { headers }: Received,
): string | undefined {
  const name = TO_CACHES.find((each) => headers[each] !== undefined)
  if (name === undefined || cachesOf(layers, route).length === 0) return undefined
  return `person ${who} got ${name}, which is for caches`
}

/** A coding, or a 304, that is for another request than this. */
function wrongFor(
  { routes }: Scenario,
  { who, route, headers: sent }: RequestSpec,
  { status, headers }: Received,
): string | undefined {
  if (headers['content-encoding'] === 'gzip' && !/gzip/.test(sent['accept-encoding'] ?? ''))
    return `person ${who} got a coding that it cannot read`
  const asks = sent['if-none-match'] !== undefined || sent['if-modified-since'] !== undefined
  const may = routes[route]?.answers.some((answer) => answer.status === 304)
  if (status === 304 && !asks && !may) return `person ${who} got a 304 to what it has not`
  return undefined
}

/** A route that is for all has one body, whoever asks and however it was kept. */
function wrongForAll(
  { routes }: Scenario,
  request: RequestSpec,
  reply: Received,
): string | undefined {
  const [answer] = routes[request.route]?.answers ?? []
  if (answer === undefined || answer.about !== undefined || request.method === 'HEAD') return
  if (!reply.complete) return undefined
  if (reply.status !== 200 && reply.status !== 203) return undefined
  const text = publicText(request.route, answer.pad)
  if (reply.body === text || reply.body === JSON.stringify({ text })) return undefined
  return `what is for all was not the same for person ${request.who}`
}

/** Whether an answer came from what another request had brought. */
export function isReused(reply: Reply): boolean {
  if (typeof reply === 'string') return false
  return /; (hit|collapsed)\b(?!=\?0)/.test(String(reply.headers['cache-status'] ?? ''))
}

/** Whether the app was asked about what is stored, and found it unchanged. */
export function isUnchanged(reply: Reply): boolean {
  if (typeof reply === 'string') return false
  return /fwd-status=304/.test(String(reply.headers['cache-status'] ?? ''))
}
