// Prints a failing scenario in words, so that a reader can rebuild it by hand: the app, the people
// and every request.

import type { Exchange, Finding } from './check.ts'
import { headersFor, targetFor } from './client.ts'
import type { Outcome } from './run-scenario.ts'
import type { Scenario } from './scenario.ts'

const NO_FIELD = ['certificate', 'login', 'body'] as const

export function transcript(scenario: Scenario, outcome: Outcome): string {
  const { seed, framework, store, wire, people, trustsProxy, layers, routes, steps } = scenario
  const proxy = trustsProxy ? ', trusts its proxy' : ''
  const lines = [`seed ${seed}: ${framework}, ${wire}, ${store} store${proxy}`, '', 'people']
  for (const [index, person] of people.entries()) lines.push(`  ${index} ${JSON.stringify(person)}`)
  lines.push('layers, outermost first')
  for (const layer of layers) lines.push(`  ${JSON.stringify(layer)}`)
  routes.forEach((route, index) => {
    lines.push(`route /r${index}/, answers in turn`)
    for (const answer of route.answers) lines.push(`  ${JSON.stringify(answer)}`)
  })
  steps.forEach((step, index) => {
    if (step.requests.length === 0 && step.event === 'none') return
    const { waitMs, meanwhileMs, event } = step
    lines.push(`step ${index} after ${waitMs} ms, meanwhile ${meanwhileMs} ms, event ${event}`)
    const exchanges = outcome.exchanges.filter((exchange) => exchange.step === index)
    for (const exchange of exchanges) lines.push(...exchangeLines(scenario, exchange))
  })
  return [...lines, 'found', ...outcome.findings.map(describeFinding), ''].join('\n')
}

function describeFinding({ what, exchange }: Finding): string {
  return `  step ${exchange.step}, /r${exchange.request.route}: ${what}`
}

function exchangeLines(scenario: Scenario, { request, reply }: Exchange): string[] {
  const sent = JSON.stringify(headersFor(scenario, request))
  const leaves = request.abortMs === undefined ? '' : `, leaves after ${request.abortMs} ms`
  const where = `${request.method} ${targetFor(scenario, request)} at server ${request.server}`
  const besides = NO_FIELD.filter((channel) => request.carries.includes(channel)).join(', ')
  const first = `  person ${request.who}: ${where} ${sent} ${besides}${leaves}`
  if (typeof reply === 'string') return [first, `    ${reply}`]
  const fields = reply.raw.flatMap((name, i) =>
    i % 2 === 0 ? [`${name}: ${reply.raw[i + 1]}`] : [],
  )
  const head = `    ${reply.status} ${reply.reason} | ${fields.join(' | ')}`
  return [first, head, `    ${reply.body.slice(0, 120)}`]
}
