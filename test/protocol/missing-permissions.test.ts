// A user that lacks one of the documented permissions: the error says what to do, and no record
// stays in Redis without a TTL.

import { createStampede } from '@stampede/core'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { addUser, DOCUMENTED, LOGIN } from '../harness/documented-permissions.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())

/** The errors of every kind of work, for a user without this command. */
async function errorsWithout(command: string): Promise<string[]> {
  await addUser(admin)
  await admin.call('ACL', 'SETUSER', LOGIN.username, `-${command.toLowerCase()}`)
  const client = new Redis(server.url, { ...LOGIN, lazyConnect: true })
  const store = redisStore(client, { commandTimeoutMs: 500 })
  const stampede = createStampede({ store })
  const locks = createLocks({ store })
  onTestFinished(async () => {
    await locks.close()
    await stampede.close()
  })
  const errors: string[] = []
  const note = (error: unknown) => void errors.push(String((error as Error).cause ?? error))
  stampede.on('store.failed', ({ error }) => void errors.push(String(error)))
  const ttl = { ttlMs: 60_000 }
  await stampede.getOrSet('k', async () => 1, ttl).catch(note)
  // The first lookup of a variant writes two records.
  await store.lookup('page\0v6:accept1:a', { token: 't', leaseMs: 1_000 }).catch(note)
  const failing = async () => {
    throw new Error('of the origin')
  }
  await stampede.getOrSet('fails', failing, ttl).catch(() => {})
  await stampede.purge({ key: 'k' }, { soft: true }).catch(note)
  await stampede.purge({ tag: 't' }).catch(note)
  await locks.acquire('l', { leaseMs: 1_000, waitMs: 100 }).catch(note)
  await locks.tryAcquire('l').catch(note)
  await stampede.idempotent('job', async () => 1, { scope: 's' }).catch(note)
  return errors
}

async function withoutTtl(): Promise<string[]> {
  const keys = await admin.keys('*')
  const ttls = await Promise.all(keys.map((key) => admin.pttl(key)))
  // The purge log has no TTL. Its size is bounded.
  return keys.filter((key, i) => ttls[i] === -1 && !key.includes('{purges}'))
}

/** Commands of scripts. Without the others, no script runs or the client does not connect. */
const OF_SCRIPTS = DOCUMENTED.filter((name) => /^(?:H|P|E?X|Z|DEL|T)(?!ING|UBLISH)/.test(name))

describe('a user without a documented permission', () => {
  it.each(DOCUMENTED)('leaves no record without a TTL: without %s', async (command) => {
    await errorsWithout(command)
    expect(await withoutTtl()).toEqual([])
  })

  it.each(OF_SCRIPTS)('gets an error that names the doctor: without %s', async (command) => {
    const errors = await errorsWithout(command)
    const refusals = errors.filter((text) => /NOPERM|can't run this command/.test(text))
    for (const text of refusals) expect(text).toContain('npx @stampede/cli doctor')
    if (['PTTL', 'PEXPIRE', 'HSET', 'HMGET', 'TIME', 'DEL'].includes(command)) {
      expect(refusals).not.toEqual([])
    }
  })
})
