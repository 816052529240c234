import { expect, it, vi } from 'vitest'
import type { Database, Query } from '../database.ts'
import { Problem } from '../response.ts'
import { createDatabaseHost } from './database-host.ts'
import type { ToProcess } from './messages.ts'
import { createRemoteDatabase } from './remote-database.ts'

/** A database behind messages, as in a shop process, with a log of what reached it. */
function connected(query: Query) {
  const log: string[] = []
  const real: Database = {
    connections: 1,
    latencyMs: 0,
    connected: true,
    query,
    async transaction(work) {
      log.push('begin')
      try {
        const result = await work(query)
        log.push('commit')
        return result
      } catch (error) {
        log.push('rollback')
        throw error
      }
    },
    close: async () => {},
  }
  const reply = (message: ToProcess) => {
    if (message.type === 'result') remote.receive(message)
  }
  const host = createDatabaseHost(Promise.resolve(real), reply)
  const remote = createRemoteDatabase((message) => {
    if (message.type === 'database') void host.handle(message.id, message.request)
  }, real)
  return { database: remote.database, host, log }
}

const echo = (async (sql, params) => [{ sql, params }]) as Query

it('runs a query in the parent, and returns its rows', async () => {
  const { database } = connected(echo)
  expect(await database.query('select $1', [7])).toEqual([{ sql: 'select $1', params: [7] }])
})

it('keeps status and title of a problem, and the text of another error', async () => {
  const down = new Problem(503, 'Database unavailable', 'It was disconnected.')
  const failing = vi.fn().mockRejectedValueOnce(down).mockRejectedValueOnce(new Error('syntax'))
  const { database } = connected(failing as unknown as Query)
  const problem = await database.query('x', []).catch((error: unknown) => error)
  expect(problem).toBeInstanceOf(Problem)
  expect(problem).toMatchObject({ status: 503, title: 'Database unavailable' })
  await expect(database.query('x', [])).rejects.toThrow('syntax')
})

it('commits a transaction whose work succeeds', async () => {
  const { database, log } = connected(echo)
  const result = await database.transaction(async (query) => (await query('a', [])).length)
  expect([result, log]).toEqual([1, ['begin', 'commit']])
})

it('rolls back a transaction whose work throws', async () => {
  const { database, log } = connected(echo)
  const work = async () => Promise.reject(new Error('out of tins'))
  await expect(database.transaction(work)).rejects.toThrow('out of tins')
  expect(log).toEqual(['begin', 'rollback'])
})

it('rolls back the transaction of a process that has ended', async () => {
  const { database, host, log } = connected(echo)
  void database.transaction(() => new Promise(() => {}))
  await vi.waitFor(() => expect(log).toEqual(['begin']), 20_000)
  host.close()
  await vi.waitFor(() => expect(log).toEqual(['begin', 'rollback']), 20_000)
})
