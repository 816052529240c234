// A job that a schedule starts in every process, as docs/guide/locks.md describes: which ways run
// the job once.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()
const PROCESSES = 5

interface Process {
  readonly stampede: Stampede
  readonly locks: Locks
}

type Way = (process: Process, job: () => Promise<string>) => Promise<unknown>

const withLock: Way = async ({ locks }, job) => {
  const lease = await locks.tryAcquire('nightly')
  if (lease === null) return
  await job()
  await lease.release()
}
const withResult: Way = ({ stampede }, job) => stampede.idempotent('nightly:2026-11-23', job)

describe('a nightly job that five processes start one after another', () => {
  it.each([
    ['five times with a lock', withLock, 5],
    ['once with a stored result', withResult, 1],
  ])('runs %s', async (title, way, times) => {
    const client = new Redis(server.url, { lazyConnect: true })
    let runs = 0
    for (let i = 0; i < PROCESSES; i++) {
      const prefix = title.replaceAll(' ', '-')
      const stampede = createStampede({ store: redisStore(client, { prefix, ...PATIENT }) })
      const locks = createLocks({ store: redisStore(client, { prefix, ...PATIENT }) })
      await way({ stampede, locks }, async () => `run ${++runs}`)
      await Promise.all([stampede.close(), locks.close()])
    }
    expect(runs).toBe(times)
    client.disconnect()
  })

  it('is rejected for a process that starts the job while another runs it', async () => {
    const client = new Redis(server.url, { lazyConnect: true })
    const open = () =>
      createStampede({ store: redisStore(client, { prefix: 'while', ...PATIENT }) })
    const first = open()
    const second = open()
    let finish = (_result: string): void => {}
    let begin = (): void => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const done = first.idempotent('nightly', () => {
      begin()
      return new Promise<string>((resolve) => {
        finish = resolve
      })
    })
    await begun
    await expect(second.idempotent('nightly', async () => 'another run')).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_IN_PROGRESS',
    })
    finish('done')
    expect(await done).toBe('done')
    expect(await second.idempotent('nightly', async () => 'another run')).toBe('done')
    await Promise.all([first.close(), second.close()])
    client.disconnect()
  })
})
