// Clients send orders with retries while workers, processes of the server and the postmaster are
// killed. In the end, each order exists once, and its clients got only its response.

import { afterAll, beforeAll, expect, it } from 'vitest'
import type { FleetMember } from '../../harness/fleet.ts'
import {
  describePostgres,
  killBackend,
  type PostgresServer,
  startPostgres,
} from '../../harness/postgres.ts'
import { type PostgresProxy, startPostgresProxy } from '../../harness/postgres-proxy.ts'
import { waitUntil } from '../../harness/wait-until.ts'
import { Judge, TABLES } from './judge.ts'
import { startWorker } from './stage.ts'

/** How often each fault strikes. */
const ROUNDS = Number(process.env.STORM_ROUNDS ?? 8)
const CLIENTS = 8
/** All clients send at least this many orders. */
const ORDERS = 300
const WORKERS = 3
/** An order or a recovery of the server takes less on any machine. */
const PATIENCE_MS = 120_000
/** Orders that succeed between two faults. */
const ORDERS_BETWEEN = 6

describePostgres('orders in a storm of faults', () => {
  const judge = new Judge()
  const workers: FleetMember[] = []
  const struck = new Map<string, number>()
  /** Errors of workers that ended by themselves. */
  const crashes: string[] = []
  let server: PostgresServer
  let proxy: PostgresProxy
  let done = 0
  let isOver = false

  const any = <T>(list: readonly T[]): T => {
    const one = list[Math.floor(Math.random() * list.length)]
    if (one === undefined) throw new Error('the list is empty')
    return one
  }
  const anyWorker = () => any(workers).url

  async function client(index: number): Promise<void> {
    for (let n = index; !isOver || done < ORDERS; n += CLIENTS) {
      const key = `order-${n}`
      const sent = { holdMs: any([0, 0, 5, 30]) }
      // A client that sent its request twice, or that left.
      const other = new AbortController()
      const second = n % 3 === 0 && judge.post(anyWorker(), key, { ...sent, signal: other.signal })
      if (n % 6 === 0) other.abort()
      await judge.postUntilDone(anyWorker, key, sent)
      await second
      done++
    }
  }

  const backends = async (): Promise<number[]> => {
    const rows = await server.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where backend_type = 'client backend' and application_name <> 'harness'`,
    )
    return rows.map(({ pid }) => pid)
  }

  const FAULTS: Readonly<Record<string, () => Promise<void>>> = {
    async 'a worker is killed'() {
      const index = Math.floor(Math.random() * WORKERS)
      const worker = workers[index]
      if (worker?.exit()) crashes.push(worker.stderr())
      await worker?.kill()
      // A worker cannot start while the server recovers.
      await waitUntil('a worker starts', async () => {
        const started = await startWorker(proxy.url, {}).catch(() => undefined)
        if (started) workers[index] = started
        return started !== undefined
      })
    },
    async 'a process of the server is killed'() {
      const pids = await backends()
      if (pids.length > 0) killBackend(any(pids))
    },
    async 'all connections are cut'() {
      proxy.cut()
    },
    async 'a session is terminated'() {
      const pids = await backends()
      if (pids.length > 0) await server.query('select pg_terminate_backend($1)', [any(pids)])
    },
    async 'the postmaster is killed'() {
      await server.restart()
    },
  }

  async function weather(): Promise<void> {
    for (let round = 1; round <= ROUNDS; round++)
      for (const [name, strike] of Object.entries(FAULTS)) {
        const until = done + ORDERS_BETWEEN
        await waitUntil('more orders succeed', () => done >= until, PATIENCE_MS)
        // A server that recovers refuses the queries of a fault.
        await waitUntil(name, () =>
          strike().then(
            () => true,
            () => false,
          ),
        )
        struck.set(name, round)
      }
    isOver = true
  }

  beforeAll(async () => {
    server = await startPostgres({ fsync: true })
    await server.query(TABLES)
    proxy = await startPostgresProxy(server.port)
    for (let n = 0; n < WORKERS; n++) workers.push(await startWorker(proxy.url, {}))
    const clients = Array.from({ length: CLIENTS }, (_, index) => client(index))
    await Promise.all([weather(), ...clients])
  }, 600_000)
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.kill()))
    await proxy?.stop()
    await server?.stop()
  })

  it('exist once each, and clients got only responses about them', async ({ annotate }) => {
    const seen = { keys: judge.keys, struck: [...struck], statuses: [...judge.statuses] }
    await annotate(JSON.stringify(seen))
    expect(judge.keys).toBeGreaterThanOrEqual(ORDERS)
    await waitUntil('the server has recovered', () => server.accepts())
    expect(await judge.violations(server)).toEqual([])
    expect(crashes).toEqual([])
  })
})
