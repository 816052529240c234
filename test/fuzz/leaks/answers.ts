// The status, fields and body of a response for one caller.

import type { Answer, AnswerSpec, Asker } from './answer-spec.ts'
import { SPELLINGS } from './answer-spec.ts'
import { HEADER_OF, type Person } from './people.ts'
import { validatorFields } from './unchanged.ts'

export function publicText(route: number, pad: number): string {
  return `for everybody at r${route} ${'.'.repeat(pad)}`
}

export function greeting(route: number, name: string, pad: number): string {
  return `r${route} greets ${name} ${'.'.repeat(pad)}`
}

/** The status of a handler that stopped because its client left. */
export function aborted(answer: Answer, how: AnswerSpec['aborts']): Answer {
  return { ...answer, status: ABORTED, throws: how === 'throws' }
}

/** No other failure of the route has this status. */
export const ABORTED = 500

export function resolve(spec: AnswerSpec, route: number, asker: Asker): Answer {
  const { person, origin } = asker
  const fields: Array<readonly [string, string]> = []
  const shielded = spec.about !== undefined && (person !== undefined || spec.shieldsAll)
  const control = controlOf(spec, shielded)
  if (spec.twoLines) for (const line of control) fields.push(['Cache-Control', line])
  else if (control.length > 0) fields.push(['Cache-Control', control.join(', ')])
  if (shielded) fields.push(...shieldFields(spec, person, origin))
  const { secret } = person ?? { secret: 'nobody' }
  if (person !== undefined) fields.push(...placed(spec, secret, asker.host))
  if (spec.requestId !== undefined) fields.push([spec.requestId, asker.caller])
  if (spec.tagField === 'Cache-Groups') fields.push([spec.tagField, `"r${route}"`])
  else if (spec.tagField !== undefined) fields.push([spec.tagField, 'shop'])
  if (!fields.some(([name]) => name === 'ETag')) {
    fields.push(
      ...validatorFields(spec.validator, `v${route}-${person?.secret ?? 'all'}`, asker.rank),
    )
  }
  return {
    status: spec.shield === 'status' && !shielded ? 200 : statusOf(spec, asker),
    reason: person !== undefined && spec.places.includes('reason') ? `OK ${secret}` : undefined,
    fields,
    text:
      spec.about === undefined ? publicText(route, spec.pad) : greeting(route, secret, spec.pad),
    way: spec.way,
    throws: spec.throws && (shielded || spec.about === undefined),
  }
}

/** A 304 is a response to the condition of this request. */
function statusOf({ status }: AnswerSpec, { asks }: Asker): number {
  return status === 304 && asks ? 401 : status
}

/** The places of the secret, apart from the body. */
function placed(
  { about, places, tagField }: AnswerSpec,
  secret: string,
  host: string | undefined,
): Array<readonly [string, string]> {
  const fields: Array<readonly [string, string]> = []
  if (places.includes('header')) fields.push(['X-Greeting', secret])
  if (places.includes('etag')) fields.push(['ETag', `"${secret}"`])
  if (places.includes('link')) fields.push(['Link', `</${secret}>`])
  if (places.includes('echo') && about === 'x-forwarded-host')
    fields.push(['Content-Location', `http://${host}/`])
  if (places.includes('tags')) {
    const name = tagField ?? 'Surrogate-Key'
    fields.push([name, name === 'Cache-Groups' ? `"${secret}"` : secret])
  }
  return fields
}

function controlOf(spec: AnswerSpec, shielded: boolean): string[] {
  const { freshness, shield, spelling } = spec
  const says = freshness === undefined ? [] : [freshness]
  if (!shielded) return says
  if (shield in SPELLINGS) return [...says, spelling]
  if (shield === 'expired') return ['max-age=0']
  return shield === 'pragma' || shield === 'silent' ? [] : says
}

function shieldFields(
  spec: AnswerSpec,
  person: Person | undefined,
  origin: string | undefined,
): Array<readonly [string, string]> {
  switch (spec.shield) {
    case 'own-control':
      return [['Stampede-Cache-Control', spec.spelling]]
    case 'pragma':
      return [
        ['Pragma', 'no-cache'],
        ['Expires', new Date(Date.now() + 3_600_000).toUTCString()],
      ]
    case 'set-cookie':
      return [['Set-Cookie', `session=${person?.secret ?? 'none'}; HttpOnly`]]
    case 'vary-star':
      return spec.twoLines
        ? [
            ['Vary', 'Accept'],
            ['Vary', '*'],
          ]
        : [['Vary', 'Accept, *']]
    case 'vary-own':
      return varyOn(HEADER_OF[spec.about ?? 'sid'] ?? '*', spec.twoLines)
    case 'cors':
      return [['Access-Control-Allow-Origin', origin ?? '*']]
    case 'event-stream':
      return [['Content-Type', 'text/event-stream']]
    default:
      return []
  }
}

function varyOn(name: string, twoLines: boolean): Array<readonly [string, string]> {
  if (!twoLines) return [['Vary', name.toUpperCase()]]
  return [
    ['Vary', 'Accept'],
    ['Vary', `X-Other,  ${name}`],
  ]
}
