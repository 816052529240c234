// The order demo: `npm run demo:orders`. A service is killed in the middle of orders, first without
// a transaction, then with one. Exits with 0 if each order took effect exactly once with it.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { KEYS, KILLS, type Step } from './steps.ts'

type Message = { readonly port: number } | { readonly key: string; readonly step: Step }

/** The rows of an order. Each count is 1 if the order took effect exactly once. */
interface Counts {
  readonly key: string
  readonly orders: number
  readonly stock_moves: number
}

const SCHEMA = 'stampede_demo'
const RETRY_MS = 200

const given = process.env.DATABASE_URL?.trim() ?? ''
const embedded = given === '' ? await startEmbeddedPostgres() : undefined
const url = embedded?.url ?? given

async function sql<Row extends object>(...statements: string[]): Promise<Row[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    let rows: Row[] = []
    for (const each of statements) rows = (await client.query<Row>(each)).rows
    return rows
  } finally {
    await client.end()
  }
}

const DROP = [SCHEMA, `${SCHEMA}_keys`].map((name) => `drop schema if exists ${name} cascade`)

/** A running service, and the promise of its end. */
async function startService(transaction: 'on' | 'off', onStep: (service: Service) => void) {
  const child = fork(fileURLToPath(new URL('./service.js', import.meta.url)), {
    env: {
      ...process.env,
      DATABASE_URL: url,
      SCHEMA,
      TRANSACTION: transaction,
      EMBEDDED: embedded === undefined ? '' : '1',
    },
  })
  const exited = once(child, 'exit')
  const service: Service = { child, exited, port: 0, at: undefined }
  child.on('message', (message: Message) => {
    if ('port' in message) service.port = message.port
    else {
      service.at = message
      onStep(service)
    }
  })
  while (service.port === 0) {
    await Promise.race([once(child, 'message'), exited])
    if (child.exitCode !== null) throw new Error('the service could not start')
  }
  return service
}

interface Service {
  readonly child: ChildProcess
  readonly exited: Promise<unknown>
  port: number
  at: { readonly key: string; readonly step: Step } | undefined
}

/** Sends all orders, as a client that tries again with the same key. */
async function round(transaction: 'on' | 'off'): Promise<Counts[]> {
  const tables = ['orders', 'stock_moves'].map(
    (name) => `create table ${SCHEMA}.${name} (id bigserial primary key, key text not null)`,
  )
  await sql(...DROP, `create schema ${SCHEMA}`, ...tables)
  const toKill = new Map(KILLS)
  const start = () =>
    startService(transaction, ({ child, at }) => {
      if (at === undefined) return
      if (toKill.get(at.key) !== at.step) return void child.send('go on')
      toKill.delete(at.key)
      console.log(`  ${at.key} ${at.step}: the service is KILLED`)
      child.kill('SIGKILL')
    })
  let service = await start()
  for (const key of KEYS) {
    for (let tries = 1; ; tries++) {
      const response = await fetch(`http://127.0.0.1:${service.port}/orders/${key}`, {
        method: 'POST',
        headers: { 'idempotency-key': key },
      }).catch(() => undefined)
      if (response?.status === 201) {
        console.log(`  ${key} 201 at try ${tries}`)
        break
      }
      if (response === undefined) {
        await service.exited
        service = await start()
      } else {
        // 409: the lease of the killed service is not over.
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }
  service.child.kill()
  await service.exited
  const count = (name: string) =>
    `(select count(*)::int from ${SCHEMA}.${name} t where t.key = k.key) as ${name}`
  const keys = KEYS.map((key) => `('${key}')`).join()
  return sql<Counts>(
    `select k.key, ${count('orders')}, ${count('stock_moves')} from (values ${keys}) as k (key)`,
  )
}

function report(rows: readonly Counts[]): boolean {
  const isOnce = (row: Counts) => row.orders === 1 && row.stock_moves === 1
  console.log('\n  key       orders  stock moves')
  for (const row of rows) {
    const mark = isOnce(row) ? '' : '  NOT exactly once'
    console.log(`  ${row.key}   ${row.orders}       ${row.stock_moves}${mark}`)
  }
  const all = rows.every(isOnce)
  console.log(
    `\n  ${rows.filter(isOnce).length} of ${rows.length} orders took effect exactly once.\n`,
  )
  return all
}

try {
  const where = embedded === undefined ? 'your PostgreSQL' : 'PostgreSQL in this process'
  console.log(`\nFive orders, each with a key, in ${where}. The service is killed three times.\n`)
  console.log('Without a transaction: the key is kept, the writes of a killed handler are, too.\n')
  report(await round('off'))
  console.log('With `transaction: true`: the key and the writes commit together, or not at all.\n')
  process.exitCode = report(await round('on')) ? 0 : 1
} finally {
  await sql(...DROP)
  await embedded?.stop()
}
