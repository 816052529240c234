// The order routes as Nest handlers, which return the body and set the rest on the response.
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { HttpException, StreamableFile } from '@nestjs/common'
import type { Response } from 'express'
import { BYTES, chunksOf, FAILURE, FILE, LARGE, locationOf, order, type Way } from '../orders.ts'
import type { Run } from '../runs.ts'

function json(res: Response, { id }: Run): object {
  res.setHeader('Location', locationOf(id))
  return order(id)
}

export const nestHandlers: Readonly<Record<Way, (res: Response, run: Run) => unknown>> = {
  json,
  other: (_res, { id }) => ({ other: id }),
  empty(res, { id }) {
    res.setHeader('Location', locationOf(id))
  },
  'no-content': () => undefined,
  binary: () => new StreamableFile(BYTES, { type: 'application/octet-stream' }),
  stream: (_res, { id }) => new StreamableFile(Readable.from(chunksOf(id)), { type: 'text/plain' }),
  redirect: (_res, { id }) => ({ url: locationOf(id), statusCode: 303 }),
  file: () => new StreamableFile(createReadStream(FILE), { type: 'text/plain' }),
  throws(res, run) {
    if (run.attempt === 1) throw new Error('the handler failed')
    return json(res, run)
  },
  unavailable(res, run) {
    if (run.attempt === 1) throw new HttpException(FAILURE, 503)
    return json(res, run)
  },
  limited(res, run) {
    if (run.attempt === 1) throw new HttpException(FAILURE, 429)
    return json(res, run)
  },
  cookie(res, run) {
    res.cookie('session', run.id)
    return json(res, run)
  },
  large: (_res, { id }) => ({ id, text: LARGE }),
}
