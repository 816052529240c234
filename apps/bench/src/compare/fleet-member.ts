// One of the server processes of a fleet: a cache in front of a route of Express 5.
import { setTimeout as sleep } from 'node:timers/promises'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express, { type ErrorRequestHandler, type RequestHandler } from 'express'
import { listen } from '../lib/http.ts'
import { BODY } from '../lib/product.ts'
import { DEADLINE_MS } from '../torture/peer.ts'
import { connect } from '../torture/peers/ioredis.ts'
import { openPeer } from '../torture/peers.ts'
import type { Scene } from './scenarios.ts'

type Load = (key: string) => Promise<unknown>

/** A handler that gets JSON from a cache and sends it unchanged. */
const sending =
  (get: Load): RequestHandler =>
  async (req, res) => {
    res.type('json').send(await get(String(req.params.key)))
  }

/** Express would log every error of the failing origin. */
const quietly: ErrorRequestHandler = (_error, _req, res, _next) => {
  res.status(500).end()
}

export async function start(id: string, redisUrl: string) {
  const text = BODY.toString()
  let calls = 0
  let isWell = true
  let app = express()
  const port = await listen((req, res) => app(req, res))

  /** Stampede is a middleware before the handler, set up as in its guide. */
  const stampede = ({ ttlMs, staleMs }: Scene, load: Load): RequestHandler[] => {
    const store = redisStore(connect({ redisUrl, client: 'guarded' }))
    const stale = { staleWhileRevalidateMs: staleMs, staleIfErrorMs: staleMs }
    const options = { stampede: createStampede({ store }), ttlMs, originTimeoutMs: DEADLINE_MS }
    return [stampedeCache({ ...options, ...stale }), sending(load)]
  }

  return {
    port: () => port,
    originCalls: () => calls,
    originIsWell(well: boolean) {
      isWell = well
    },
    /** Creates a new cache for each scenario, because each scenario has other lifetimes. */
    async open(scene: Scene): Promise<void> {
      const load = async (): Promise<string> => {
        calls += 1
        await sleep(scene.originMs)
        if (!isWell) throw new Error('the origin fails')
        return text
      }
      const settings = { ...scene, redisUrl, load, tags: [], client: 'guarded' } as const
      const handlers =
        id === 'stampede' ? stampede(scene, load) : [sending((await openPeer(id, settings)).get)]
      app = express()
      app.get('/items/:key', ...handlers)
      app.use(quietly)
    },
  }
}
