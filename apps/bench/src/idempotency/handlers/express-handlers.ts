// The order routes as Express handlers, each written as in the Express documentation.
import { Readable } from 'node:stream'
import type { Request, Response } from 'express'
import {
  BYTES,
  chunksOf,
  FAILURE,
  FILE,
  LARGE,
  locationOf,
  order,
  pathOf,
  WAYS,
  type Way,
} from '../orders.ts'
import { beginRun, type Run } from '../runs.ts'

function json(res: Response, { id }: Run): void {
  res.status(201).location(locationOf(id)).json(order(id))
}

const responders: Readonly<Record<Way, (res: Response, run: Run) => void>> = {
  json,
  other: (res, { id }) => res.status(201).json({ other: id }),
  empty: (res, { id }) => res.status(201).location(locationOf(id)).end(),
  'no-content': (res) => res.sendStatus(204),
  binary: (res) => res.type('application/octet-stream').send(BYTES),
  stream(res, { id }) {
    res.type('text/plain; charset=utf-8')
    Readable.from(chunksOf(id)).pipe(res)
  },
  redirect: (res, { id }) => res.redirect(303, locationOf(id)),
  file: (res) => res.sendFile(FILE),
  throws(res, run) {
    if (run.attempt === 1) throw new Error('the handler failed')
    json(res, run)
  },
  unavailable(res, run) {
    if (run.attempt > 1) return json(res, run)
    res.status(503).set('Retry-After', '1').json(FAILURE)
  },
  limited(res, run) {
    if (run.attempt > 1) return json(res, run)
    res.status(429).set('Retry-After', '1').json(FAILURE)
  },
  cookie: (res, run) => json(res.cookie('session', run.id), run),
  large: (res, { id }) => res.json({ id, text: LARGE }),
}

/** Every way to respond, with its path and its handler. */
export const expressHandlers = WAYS.map((way) => ({
  path: pathOf(way),
  handler: async (req: Request, res: Response): Promise<void> => {
    responders[way](res, await beginRun(req.headers))
  },
}))
