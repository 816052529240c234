// One of the server processes of a fleet: node member.js <peer id> <Redis URL>.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import express, { type ErrorRequestHandler } from 'express'
import { offer } from '../lib/child.ts'
import { BODY } from '../lib/product.ts'
import { openPeers } from './peers.ts'

export interface SceneOrder {
  readonly ttlMs: number
  readonly staleMs: number
  readonly originMs: number
}

const [, , id, redisUrl = ''] = process.argv
const peer = openPeers.find((each) => each.id === id)
if (peer === undefined) throw new Error(`no cache named ${id}`)

const JSON_TEXT = BODY.toString()
let calls = 0
let isWell = true
let app = express()
const server = createServer((req, res) => app(req, res)).listen(0, '127.0.0.1')
await once(server, 'listening')

offer({
  port: () => (server.address() as AddressInfo).port,
  open,
  originCalls: () => calls,
  originIsWell: (well: boolean) => {
    isWell = well
  },
})

/** Express would log every error of the failing origin. */
const quietly: ErrorRequestHandler = (_error, _req, res, _next) => {
  res.status(500).end()
}

/** Creates a new cache for each scenario, because each scenario has other lifetimes. */
async function open({ originMs, ...settings }: SceneOrder): Promise<void> {
  const load = async (): Promise<string> => {
    calls += 1
    await sleep(originMs)
    if (!isWell) throw new Error('the origin fails')
    return JSON_TEXT
  }
  const handlers = (await peer?.open({ ...settings, redisUrl, load })) ?? []
  app = express()
  app.get('/items/:key', ...handlers)
  app.use(quietly)
}
