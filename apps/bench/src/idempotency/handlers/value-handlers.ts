// The order routes as functions that return an API Gateway result, for libraries that guard
// functions.
import type { IncomingHttpHeaders } from 'node:http'
import type { Response } from 'express'
import { BYTES, FAILURE, LARGE, locationOf, order, type Way } from '../orders.ts'
import { beginRun } from '../runs.ts'

export interface Call {
  readonly way: Way
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
}

/** JSON can carry this type. These libraries store it as JSON. */
export type Result = {
  statusCode: number
  headers: Record<string, string>
  body: string
  isBase64Encoded: boolean
}

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' }

function result(statusCode: number, headers: Record<string, string>, body: unknown = ''): Result {
  const isBase64Encoded = Buffer.isBuffer(body)
  if (isBase64Encoded)
    return { statusCode, headers, body: body.toString('base64'), isBase64Encoded }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { statusCode, headers, body: text, isBase64Encoded }
}

export async function respondToCall({ way, headers }: Call): Promise<Result> {
  const { id, attempt } = await beginRun(headers)
  const location = locationOf(id)
  const created = result(201, { ...JSON_TYPE, location }, order(id))
  switch (way) {
    case 'other':
      return result(201, JSON_TYPE, { other: id })
    case 'empty':
      return result(201, { location })
    case 'no-content':
      return result(204, {})
    case 'binary':
      return result(200, { 'content-type': 'application/octet-stream' }, BYTES)
    case 'redirect':
      return result(303, { location })
    case 'throws':
      if (attempt === 1) throw new Error('the handler failed')
      return created
    case 'unavailable':
      return attempt === 1 ? result(503, JSON_TYPE, FAILURE) : created
    case 'limited':
      return attempt === 1 ? result(429, JSON_TYPE, FAILURE) : created
    case 'large':
      return result(200, JSON_TYPE, { id, text: LARGE })
    default:
      return created
  }
}

export function sendResult(res: Response, { statusCode, headers, body, isBase64Encoded }: Result) {
  res.writeHead(statusCode, headers).end(body, isBase64Encoded ? 'base64' : 'utf8')
}
