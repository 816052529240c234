// Every reply and every write of the scripts that end an attempt at an idempotency key:
// finish-record by its holder, settle-record by an operator. As in lua.test.ts, each line of a
// script has a test that fails without it.

import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishRecord, settleRecord } from '../../packages/redis/src/protocol/scripts.generated.ts'
import {
  call,
  expectKept,
  hearWakes,
  KEEP_MS,
  LARGEST,
  less,
  NONSENSE,
  NOW,
  plant,
  RELEASED,
  SOUND,
  UNCERTAIN,
  unchanged,
} from '../harness/lua-records.ts'
import {
  allHeard,
  type Fields,
  FUTURE,
  fieldsOf,
  record,
  redis,
  scriptsOfFile,
  serverMs,
  statusOf,
  tests,
  whenFull,
  without,
} from '../harness/lua-scripts.ts'

scriptsOfFile()

/** These processes wait. No message may go to any other process. */
const WAITING = { 'w:me': 1, 'w:you': 1 }
const woken = () => [`wake ${tests} me the key`, `wake ${tests} you the key`]
const settled = () => `settled ${tests} 0the key`

beforeEach(() => hearWakes('me', 'you', 'others'))

describe('finish-record', () => {
  interface Given {
    token?: string
    fence?: string
    client?: Redis
  }
  const finish = (as: string, given: Given = {}) => {
    const { token = 'holder', fence = '7', client = redis } = given
    const ending = [as, KEEP_MS, `frame of ${as}`, 'e2', 'c2', 'the key', `wake ${tests} `]
    return call(finishRecord, [token, fence, ...ending], client)
  }
  const STATES = ['completed', 'released', 'uncertain']

  it.each([
    ['completed', { frame: 'frame of completed' }],
    ['released', { lost: '0' }],
    ['uncertain', {}],
  ])(
    'replies FINISHED as %s: the lease ends, the TTL is the given one, and waiters are woken',
    async (as, more) => {
      await plant({ ...SOUND, ...WAITING })
      const before = await serverMs()
      const [status, now] = (await finish(as)) as [string, number]
      expect(status).toBe('FINISHED')
      expect(now).toBeGreaterThanOrEqual(before)
      expect(now).toBeLessThanOrEqual(await serverMs())
      const rest = less('token', 'until')
      expect(await fieldsOf()).toEqual({ ...rest, s: as, ended: 'holder', ...more })
      await expectKept(KEEP_MS)
      expect((await allHeard()).sort()).toEqual(woken())
    },
  )

  it('replies FINISHED to a caller that has only the token, and keeps the count of lost leases', async () => {
    await plant({ ...SOUND, ...WAITING })
    expect(await finish('released', { fence: '*' })).toEqual(['FINISHED', NOW])
    const rest = less('token', 'until')
    expect(await fieldsOf()).toEqual({ ...rest, s: 'released', ended: 'holder' })
    await expectKept(KEEP_MS)
    expect((await allHeard()).sort()).toEqual(woken())
  })

  it('replies FINISHED on a server without free memory', async () => {
    for (const as of STATES) {
      await plant({ ...SOUND, ...WAITING })
      expect(await whenFull(() => finish(as))).toEqual(['FINISHED', NOW])
      expect(await fieldsOf()).toMatchObject({ s: as, ended: 'holder' })
      await expectKept(KEEP_MS)
    }
    expect(await allHeard()).toHaveLength(6)
  })

  it('replies FINISHED to a user who may not publish', async () => {
    await plant({ ...SOUND, ...WAITING })
    const client = await without('publish')
    expect(await finish('completed', { client })).toEqual(['FINISHED', NOW])
    client.disconnect()
    expect(await fieldsOf()).toMatchObject({ s: 'completed', ended: 'holder' })
    expect(Object.keys(await fieldsOf()).filter((field) => field.startsWith('w:'))).toEqual([])
  })

  it('replies RESURRECTED on a server without free memory', async () => {
    expect(await whenFull(() => finish('completed'))).toEqual(['RESURRECTED', NOW])
    expect(await fieldsOf()).toMatchObject({ s: 'completed', frame: 'frame of completed' })
    await expectKept(KEEP_MS)
  })
})

describe('settle-record', () => {
  interface Given {
    force?: 0 | 1
    client?: Redis
  }
  const settle = (as: string, given: Given = {}) => {
    const { force = 0, client = redis } = given
    const args = [as, KEEP_MS, `frame of ${as}`, force, 'the key', `wake ${tests} `]
    return call(settleRecord, [...args, `settled ${tests}`], client)
  }
  /** A settled record has a fence of its own. */
  const fence = expect.stringMatching(/^\d{16}$/) as string
  const SETTLED = { ...less('token', 'until'), fence, ended: '', lost: '0', recovery: '0' }
  const ENDINGS: ReadonlyArray<readonly [string, Fields]> = [
    ['completed', { ...SETTLED, s: 'completed', frame: 'frame of completed' }],
    ['released', { ...SETTLED, s: 'released' }],
  ]

  it('replies REFUSED even with force for a record of another layout', async () => {
    for (const fields of [{ ...UNCERTAIN, v: '2' }, { ...UNCERTAIN, v: '' }, less('v')]) {
      await plant({ ...fields, ...WAITING })
      for (const force of [0, 1] as const) {
        const reply = await unchanged(() => settle('released', { force }))
        expect(reply).toEqual(['REFUSED', NOW])
      }
    }
  })

  it('replies SETTLED, and wakes waiters before all processes get the message', async () => {
    await plant({ ...UNCERTAIN, 'w:me': 1 })
    await settle('released')
    expect(await allHeard()).toEqual([`wake ${tests} me the key`, settled()])
  })

  it('replies SETTLED for a record with invalid numbers, and writes valid ones', async () => {
    for (const value of NONSENSE) {
      await plant({ ...SOUND, fence: value, attempt: value, lost: value, recovery: value })
      const [, now] = (await settle('released', { force: 1 })) as [string, number]
      const fields = await fieldsOf()
      expect(fields).toEqual({ ...SETTLED, ...fields, s: 'released' })
      expect(fields).toMatchObject({ fence, attempt: '1', lost: '0', recovery: '0' })
      expect(Math.floor(Number(fields.fence) / 1_000)).toBe(now)
    }
    await plant({ ...SOUND, fence: LARGEST, attempt: LARGEST })
    await settle('released', { force: 1 })
    expect(await fieldsOf()).toMatchObject({ fence: LARGEST, attempt: LARGEST })
  })

  it('replies SETTLED for a record without numbers', async () => {
    await plant({ v: 1 })
    expect(await settle('completed', { force: 1 })).toEqual(['SETTLED', NOW])
    const whole = { v: '1', attempt: '1', lost: '0', recovery: '0', ended: '', s: 'completed' }
    expect(await fieldsOf()).toEqual({ ...whole, fence, frame: 'frame of completed' })
  })

  it('replies SETTLED on a server without free memory', async () => {
    for (const [as, left] of ENDINGS) {
      await plant({ ...SOUND, ...WAITING })
      expect(await whenFull(() => settle(as, { force: 1 }))).toEqual(['SETTLED', NOW])
      expect(await fieldsOf()).toEqual(left)
      await expectKept(KEEP_MS)
    }
    expect(await allHeard()).toHaveLength(6)
  })

  it('replies SETTLED on a server without free memory that can evict nothing', async () => {
    await plant(RELEASED)
    expect(await whenFull(() => settle('completed'))).toEqual(['SETTLED', NOW])
    await expectKept(KEEP_MS)
  })

  it('replies SETTLED to a user who may not publish', async () => {
    await plant({ ...UNCERTAIN, ...WAITING })
    const client = await without('publish')
    expect(await settle('released', { client })).toEqual(['SETTLED', NOW])
    client.disconnect()
    expect(await fieldsOf()).toEqual({ ...SETTLED, s: 'released' })
    expect(await allHeard()).toEqual([])
  })

  it('replies SETTLED when the lease ends at this moment', async () => {
    await plant(SOUND)
    await record({ until: await serverMs() })
    expect(await statusOf(settle('released'))).toBe('SETTLED')
    await plant({ ...SOUND, until: FUTURE })
    expect(await statusOf(settle('released'))).toBe('REFUSED')
  })
})
