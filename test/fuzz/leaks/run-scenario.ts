// Runs one scenario: real servers on loopback, concurrent clients, time that passes, and a Redis
// that fails.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { createSecureServer } from 'node:http2'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createStampede, type PurgeTarget, type Stampede } from '@stampede/core'
import { runtimeOf } from '@stampede/core/operator'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { AUTHORITY, SERVER } from '../../harness/certificates.ts'
import type { RedisServer } from '../../harness/redis-server.ts'
import type { AppContext } from './app-context.ts'
import { buildApp } from './build-app.ts'
import { check, type Exchange, type Finding } from './check.ts'
import { Clients } from './client.ts'
import type { PurgeKind, Scenario, StepSpec } from './scenario.ts'
import { realTime, SteppedTime, type TestTime } from './test-time.ts'

export interface Outcome {
  readonly findings: readonly Finding[]
  readonly exchanges: readonly Exchange[]
  readonly shields: ReadonlyMap<string, number>
}

let scenarios = 0

export async function runScenario(
  scenario: Scenario,
  redis: RedisServer | undefined,
): Promise<Outcome> {
  const time = scenario.store === 'memory' ? new SteppedTime() : realTime
  const stampedes = openStampedes(scenario, redis, time)
  const shared = { scenario, runs: [], keys: new Set<string>(), shields: new Map() }
  const contexts: AppContext[] = stampedes.map((stampede) => ({ ...shared, stampede }))
  const servers = await Promise.all(contexts.map((context) => listen(context)))
  const clients = new Clients(scenario)
  const exchanges: Exchange[] = []
  try {
    for (const [step, spec] of scenario.steps.entries()) {
      await time.pass(spec.waitMs)
      await strike(spec, contexts, redis)
      exchanges.push(...(await runStep({ step, spec, servers, clients, time })))
      if (spec.event === 'pause') await redis?.resume()
      await time.until(async () => stampedes.every(isQuiet))
    }
  } finally {
    if (scenario.store === 'redis') await redis?.resume()
    clients.close()
    await Promise.all(servers.map((server) => server.shut()))
    await time.end(Promise.all(stampedes.map((stampede) => stampede.close())))
  }
  const findings = exchanges.flatMap((exchange) => check(scenario, exchange))
  return { findings, exchanges, shields: shared.shields }
}

interface Stage {
  readonly step: number
  readonly spec: StepSpec
  readonly servers: readonly Listening[]
  readonly clients: Clients
  readonly time: TestTime
}

async function runStep(stage: Stage): Promise<Exchange[]> {
  const { step, spec, servers, clients, time } = stage
  const sent = spec.requests.map(async (request): Promise<Exchange> => {
    const port = servers[request.server % servers.length]?.port ?? 0
    return { step, request, reply: await clients.send(port, request) }
  })
  if (spec.meanwhileMs > 0) await time.pass(spec.meanwhileMs)
  return time.during(Promise.all(sent))
}

function isQuiet(stampede: Stampede): boolean {
  return stampede.stats().active.flights === 0
}

function openStampedes(
  { store, seed }: Scenario,
  redis: RedisServer | undefined,
  time: TestTime,
): Stampede[] {
  if (store === 'memory') return [passing(createStampede({ clock: time.clock }), 2_000)]
  if (redis === undefined) throw new Error('this scenario needs a Redis')
  const prefix = `leak-${process.pid}-${seed}-${scenarios++}`
  return [0, 1].map(() => {
    const client = new Redis(redis.url, { lazyConnect: true })
    client.on('error', () => {})
    const options = { prefix, commandTimeoutMs: 60 }
    const store = redisStore(client, options)
    return passing(createStampede({ store, failureBackoffMs: 30 }), 50)
  })
}

/** With a short hit-for-miss marker, so that it ends more than once in a scenario. */
function passing(stampede: Stampede, passMs: number): Stampede {
  Object.assign(runtimeOf(stampede), { passMs })
  return stampede
}

/** Causes the events of a step. A purge that fails does not matter here. */
async function strike(
  { event, target }: StepSpec,
  contexts: readonly AppContext[],
  redis: RedisServer | undefined,
): Promise<void> {
  if (event === 'pause') await redis?.pause()
  if (event === 'restart') await redis?.restart()
  if (event !== 'purge' && event !== 'soft-purge') return
  const [context] = contexts
  const named = context && purgeTarget(context, target)
  if (named !== undefined) {
    await context?.stampede.purge(named, { soft: event !== 'purge' }).catch(() => {})
  }
}

function purgeTarget({ scenario, keys }: AppContext, kind: PurgeKind): PurgeTarget | undefined {
  const [key] = keys
  switch (kind) {
    case 'key':
      return key === undefined ? undefined : { key }
    case 'path':
      return { path: '/r0/p' }
    case 'host':
      return { path: '/r0/p', host: 'localhost' }
    case 'route':
      return { route: '/:route/*rest' }
    case 'tag':
      return { tag: 'shop' }
    case 'caller':
      return { tag: scenario.people[0]?.secret ?? 'nobody' }
    case 'all':
      return { all: true }
  }
}

interface Listening {
  readonly port: number
  shut(): Promise<void>
}

/** TLS connections are also accepted without a certificate, or with a self-signed one. */
const TLS = { ...SERVER, ca: AUTHORITY, requestCert: true, rejectUnauthorized: false }

async function listen(context: AppContext): Promise<Listening> {
  const server = serverOf(context)
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async shut() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

function serverOf(context: AppContext): Server {
  const app = buildApp(context)
  switch (context.scenario.wire) {
    case 'http':
      return createServer(app)
    case 'https':
      return createTlsServer(TLS, app)
    case 'http2':
      // The objects of HTTP/2 have the members of HTTP/1 that are used here.
      return createSecureServer(TLS, app as never)
  }
}
