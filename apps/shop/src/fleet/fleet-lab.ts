// The lab of the fleet, at the front: the routes of the lab in one process, and those of the lanes.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Database } from '../database.ts'
import { type About, createLab, deadline, forLocalCallers, NO_STORE, routeOf } from '../lab.ts'
import { createTurn } from '../lab-turn.ts'
import type { OriginRuns } from '../origin-runs.ts'
import { readJson } from '../read-json.ts'
import { json, noSuchPage, Problem, respondToError, type ShopResponse } from '../response.ts'
import { createEventStream } from './event-stream.ts'
import type { Fleet } from './fleet.ts'
import { type OwnRoute, sendResponse } from './front.ts'
import { readLaneOrder, runLane } from './lane-run.ts'

export interface FleetLab {
  readonly route: OwnRoute
  /** Sends the state of the processes to the open pages. */
  showFleet(): void
  /** Ends the open streams. */
  close(): void
}

export interface FleetLabOptions {
  readonly fleet: Fleet
  readonly database: Database
  readonly originRuns: OriginRuns
  readonly about: About
}

/** A connection of a process that was killed breaks. A GET may be sent again twice. */
const RETRIES = 2

type Handler = (message: IncomingMessage) => Promise<ShopResponse>

export function createFleetLab({ fleet, about, ...shop }: FleetLabOptions): FleetLab {
  const turn = createTurn()
  const stream = createEventStream('fleet')
  const reached = {
    retries: RETRIES,
    describe: () => fleet.state,
    next() {
      const address = fleet.next()
      if (address !== undefined) return address
      throw new Problem(503, 'No process', 'No process of the shop responds. Try again.')
    },
  }
  const lab = createLab(shop, about, reached, turn)

  const lane: Handler = (message) =>
    forLocalCallers(message, async () => {
      const order = readLaneOrder(await readJson(message))
      const context = {
        fleet,
        ...shop,
        route: routeOf(message, reached),
        deadline: deadline(),
        publish: stream.send,
      }
      return json(await turn.take(() => runLane(order, context)), NO_STORE)
    })

  const handlers: Readonly<Record<string, Handler>> = {
    'GET /api/lab/stats': lab.stats,
    'DELETE /api/lab/stats': lab.resetStats,
    'POST /api/lab/stampede': lab.stampede,
    'POST /api/lab/double-click': lab.doubleClick,
    'PUT /api/lab/database': lab.database,
    'POST /api/lab/lane': lane,
  }

  const respond = async (message: IncomingMessage, response: ServerResponse, path: string) => {
    const handler = handlers[`${message.method} ${path}`]
    const reply = await (handler?.(message) ?? noSuchPage())
    sendResponse(response, reply)
  }

  /** The stream is open to callers on this machine, like all of the lab. */
  const openStream = async (message: IncomingMessage, response: ServerResponse) => {
    const refusal = await forLocalCallers(message, () => noSuchPage())
    if (refusal.status === 404) stream.open(message, response)
    else sendResponse(response, refusal)
  }

  return {
    route(message, response) {
      const path = (message.url ?? '').split('?', 1)[0] ?? ''
      if (!path.startsWith('/api/lab/')) return false
      const done =
        path === '/api/lab/events' && message.method === 'GET'
          ? openStream(message, response)
          : respond(message, response, path)
      done.catch((error) => sendResponse(response, respondToError(error, message)))
      return true
    },
    showFleet: () => stream.send('fleet', fleet.state),
    close: () => stream.close(),
  }
}
