// The role of a shop process in the fleet: it serves the shop on a free port of this machine. Its
// database is in the parent, and its events go there.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createOriginRuns } from '../origin-runs.ts'
import { closeAll, type OnStop, type Start } from '../run.ts'
import { drain, listenLocally } from '../serve.ts'
import type { Settings } from '../settings.ts'
import { createShop } from '../shop.ts'
import { createEventBatch } from './event-batch.ts'
import type { FromProcess, ToProcess } from './messages.ts'
import { createRemoteDatabase } from './remote-database.ts'
import { toSent } from './sent-error.ts'

/** As many connections as the database in the parent has. The page shows this number. */
const CONNECTIONS = 20

/** Runs until the parent sends SIGTERM, or is gone. */
export async function runProcess(settings: Settings, start: Start): Promise<void> {
  const closers: Array<() => unknown> = []
  const onStop: OnStop = (close) => closers.unshift(close)
  const send = (message: FromProcess) => {
    if (process.connected) process.send?.(message, () => {})
  }
  // Ctrl-C in a terminal reaches all processes. The parent stops them in order.
  process.on('SIGINT', () => {})
  const stop = new Promise<void>((resolve) => process.on('SIGTERM', () => resolve()))
  process.on('disconnect', () => process.exit(1))

  const { originLatencyMs: latencyMs } = settings
  const remote = createRemoteDatabase(send, { latencyMs, connections: CONNECTIONS })
  const runs = createOriginRuns()
  const shop = createShop(remote.database, {
    ...runs,
    record: (route, runId) => send({ type: 'origin-run', route, runId }),
  })
  let purge: (path: string) => Promise<void> = async () => {}
  const listener = await start({
    settings,
    onStop,
    openShop: async () => shop,
    watch(stampede) {
      stampede.on(
        '*',
        createEventBatch((events) => send({ type: 'events', events })),
      )
      purge = (path) => stampede.purge({ path })
    },
  })
  process.on('message', async (message: ToProcess) => {
    if (message.type === 'result') return remote.receive(message)
    try {
      shop.perProcess.purge(message.path)
      await purge(message.path)
      send({ type: 'purged', id: message.id })
    } catch (error) {
      send({ type: 'purged', id: message.id, error: toSent(error) })
    }
  })
  const server = await listenLocally(createServer(listener))
  closers.unshift(() => drain(server))
  send({ type: 'ready', port: (server.address() as AddressInfo).port })
  await stop
  await closeAll(closers)
  process.exit()
}
