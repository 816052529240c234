// The ways in which a handler responds to a condition with 304. The 304 has the fields of the full
// response, or some of them, or others that are about the client. In the last case a shield keeps
// those from other clients.

import type { Answer, AnswerSpec, Asker, ExtraSpec, Validator } from './answer-spec.ts'
import { HEADER_OF, type Received } from './people.ts'

type Fields = ReadonlyArray<readonly [name: string, value: string]>

const FIRST_DATE = Date.UTC(2020, 0, 1)

export function validatorFields(
  validator: Validator | undefined,
  tag: string,
  rank: number,
): Fields {
  const date = new Date(FIRST_DATE + (validator === 'date' ? 0 : rank * 1_000)).toUTCString()
  switch (validator) {
    case undefined:
      return []
    case 'etag':
      return [['ETag', `"${tag}"`]]
    case 'weak':
      return [['ETag', `W/"${tag}"`]]
    case 'both':
      return [
        ['ETag', `"${tag}"`],
        ['Last-Modified', date],
      ]
    default:
      return [['Last-Modified', date]]
  }
}

/** The 304, if the condition is met. `asker.person` is the person that its own fields are about. */
export function notModified(
  { unchanged }: AnswerSpec,
  whole: Answer,
  { person, origin }: Asker,
  headers: Received['headers'],
): Answer | undefined {
  if (unchanged === undefined || whole.status !== 200 || whole.throws) return undefined
  if (!meets(headers, whole.fields)) return undefined
  const { says, extra } = unchanged
  const left = says === 'all' ? whole.fields : whole.fields.filter(([name]) => !LESS.includes(name))
  const own = extra && person ? extraFields(extra, person.secret, origin) : []
  // A repeated field replaces the field of the full response.
  const named = new Set(own.map(([name]) => name))
  const fields = [...left.filter(([name]) => !named.has(name)), ...own]
  return { ...whole, status: 304, fields }
}

const LESS = ['Cache-Control', 'Expires', 'Vary', 'Last-Modified']

/** Compared as many servers do: a date has to be exactly equal. */
function meets(headers: Received['headers'], fields: Fields): boolean {
  const saidAs = (name: string) => fields.find(([each]) => each === name)?.[1]
  const tags = headers['if-none-match']
  const tag = saidAs('ETag')?.replace('W/', '')
  if (tags !== undefined) return tag !== undefined && (tags === '*' || String(tags).includes(tag))
  const since = headers['if-modified-since']
  return since !== undefined && since === saidAs('Last-Modified')
}

function extraFields(
  { about, shield, spelling }: ExtraSpec,
  secret: string,
  origin: string | undefined,
): Fields {
  const greeting = [
    ['X-Greeting', secret],
    ['Surrogate-Key', secret],
  ] as const
  switch (shield) {
    case 'option':
      return greeting
    case 'own-control':
      return [...greeting, ['Stampede-Cache-Control', spelling]]
    case 'set-cookie':
      return [...greeting, ['Set-Cookie', `session=${secret}; HttpOnly`]]
    case 'vary-star':
      return [...greeting, ['Vary', '*']]
    case 'vary-own':
      return [...greeting, ['Vary', HEADER_OF[about] ?? '*']]
    case 'cors':
      return [...greeting, ['Access-Control-Allow-Origin', origin ?? '*']]
    case 'other-etag':
      return [...greeting, ['ETag', `"other-${secret}"`]]
    case 'expired':
      return [...greeting, ['Cache-Control', 'max-age=0']]
    default:
      return [...greeting, ['Cache-Control', spelling]]
  }
}
