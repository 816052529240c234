// States of the server: a full disk, a clock that jumps, commits that a crash may lose, and a
// fail-over to a synchronous standby.

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { movableClock, whyNoClock } from '../../harness/movable-clock.ts'
import {
  describePostgres,
  OWNER,
  type PostgresServer,
  startPostgres,
} from '../../harness/postgres.ts'
import { startPostgresProxy } from '../../harness/postgres-proxy.ts'
import { insertOrder, type Orders, type OrdersOptions, startOrders, TABLES } from '../orders.ts'

const HOUR_MS = 3_600_000

async function idsOf(server: PostgresServer, key: string): Promise<string[]> {
  const rows = await server.query<{ id: string }>('select id from orders where key = $1', [key])
  return rows.map(({ id }) => id)
}

describePostgres('a POST in a transaction', () => {
  async function start(options: Parameters<typeof startPostgres>[0]): Promise<PostgresServer> {
    const server = await startPostgres(options)
    onTestFinished(() => server.stop())
    await server.query(TABLES)
    return server
  }

  async function open(url: string, options?: OrdersOptions): Promise<Orders> {
    const app = await startOrders(url, options)
    onTestFinished(() => app[Symbol.asyncDispose]())
    return app
  }

  it('outlives a fail-over to a synchronous standby', async () => {
    const server = await start({ fsync: true })
    const standby = await server.startStandby()
    const proxy = await startPostgresProxy(server.port)
    onTestFinished(() => proxy.stop())
    const app = await open(proxy.url)
    const before = await app.post('before')
    expect(before.status).toBe(201)
    await server.kill()
    await standby.promote()
    proxy.moveTo(standby.port)
    proxy.cut()
    const other = await open(proxy.url)
    expect((await other.post('before')).body).toBe(before.body)
    expect(await idsOf(standby, 'before')).toHaveLength(1)
    expect((await other.post('after')).status).toBe(201)
  })

  it('responds 503 on a standby, which cannot write', async () => {
    const server = await start({})
    const primary = await open(server.url)
    expect((await primary.post('known')).status).toBe(201)
    const standby = await server.startStandby()
    const proxy = await startPostgresProxy(server.port)
    onTestFinished(() => proxy.stop())
    const app = await open(proxy.url)
    proxy.moveTo(standby.port)
    proxy.cut()
    expect((await app.post('known')).status).toBe(503)
    expect((await app.post('unknown')).status).toBe(503)
  })

  it('loses the order and the record together if synchronous_commit is off', async () => {
    // The server writes its log to disk seldom, so that a crash loses commits.
    const settings = { synchronous_commit: 'off', wal_writer_delay: '10s' }
    const server = await start({ fsync: true, settings })
    const app = await open(server.url)
    await server.query('checkpoint')
    const keys = Array.from({ length: 20 }, (_, n) => `order-${n}`)
    for (const key of keys) expect((await app.post(key)).status).toBe(201)
    await server.restart()
    const left = await server.query<{ orders: number; records: number }>(
      `select (select count(*)::int from orders) as orders,
              (select count(*)::int from stampede.idempotency) as records`,
    )
    expect(left[0]?.orders).toBe(left[0]?.records)
    expect(left[0]?.orders).toBeLessThan(keys.length)
    const other = await open(server.url)
    for (const key of keys) {
      const { status, body } = await other.post(key)
      expect(status).toBe(201)
      expect(await idsOf(server, key)).toEqual([JSON.parse(body).id])
    }
  })

  it('takes effect once while the clock of the server jumps', async ({ skip }) => {
    const why = await whyNoClock()
    skip(why !== undefined, why)
    const clock = await movableClock()
    onTestFinished(() => clock.stop())
    const server = await start({ env: clock.env })
    const app = await open(server.url)
    const first = await app.post('before')
    await clock.setBy(-HOUR_MS)
    const other = await open(server.url)
    expect((await other.post('before')).body).toBe(first.body)
    expect((await other.post('back')).status).toBe(201)
    await clock.setBy(HOUR_MS)
    const third = await open(server.url)
    for (const key of ['before', 'back']) expect((await third.post(key)).status).toBe(201)
    for (const key of ['before', 'back']) expect(await idsOf(server, key)).toHaveLength(1)
  })

  it.for(['notes', 'stampede.idempotency'])(
    'responds no success while there is no space for %s',
    async (table, { skip }) => {
      const disk = smallDisk()
      skip(disk === undefined, 'a small file system needs root, and the right to mount it')
      if (disk === undefined) return
      onTestFinished(async () => disk.remove())
      const server = await start({})
      await server.query('create table notes (order_id bigint, note bytea)')
      await server.query('alter table notes alter column note set storage plain')
      const app = await open(server.url, {
        async handler(tx, req, res) {
          const id = await insertOrder(tx, req)
          // Random, because PostgreSQL compresses large values.
          const note = randomBytes(3_000)
          await tx.query('insert into notes values ($1, $2)', [id, note])
          res.status(201).json({ id, note: note.toString('base64') })
        },
      })
      await server.query(`create tablespace small location '${disk.folder}'`)
      await server.query(`alter table ${table} set tablespace small`)
      expect((await app.post('space')).status).toBe(201)
      disk.fill()
      // The last page of the table has room for some rows.
      let full = ''
      let failed = 0
      for (let n = 0; n < 50 && failed === 0; n++) {
        full = `order-${n}`
        const { status } = await app.post(full)
        if (status !== 201) failed = status
      }
      expect(failed).toBeGreaterThanOrEqual(500)
      expect(server.log()).toMatch(/No space left on device/)
      expect(await idsOf(server, full)).toEqual([])
      disk.free()
      const { status, body } = await app.post(full)
      expect(status).toBe(201)
      expect(await idsOf(server, full)).toEqual([JSON.parse(body).id])
    },
  )
})

/** A file system of 4 MB for a tablespace. Undefined: this process may not mount one. */
function smallDisk() {
  const folder = mkdtempSync(join(tmpdir(), 'stampede-disk-'))
  try {
    const { uid = 0, gid = 0 } = OWNER
    const options = `size=4m,mode=700,uid=${uid},gid=${gid}`
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    rmSync(folder, { recursive: true })
    return undefined
  }
  const filler = join(folder, 'filler')
  return {
    folder,
    fill() {
      const { bfree, bsize } = statfsSync(folder)
      writeFileSync(filler, Buffer.alloc(bfree * bsize))
    },
    free: () => rmSync(filler),
    remove() {
      execFileSync('umount', [folder])
      rmSync(folder, { recursive: true })
    },
  }
}
