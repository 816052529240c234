// Scripts for idempotency keys, called directly as in lua.test.ts: their fields, messages, TTLs and
// limits. The idempotency store contract (packages/testkit) tests the replies that a store passes
// on. Scripts that end an attempt are in lua-idempotency-end.test.ts.

import { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import * as generated from '../../packages/redis/src/protocol/scripts.generated.ts'
import { freeClusterPort } from '../harness/free-port.ts'
import {
  COMPLETED,
  call,
  expectKept,
  hearWakes,
  KEEP_MS,
  LAPSED,
  LARGEST,
  less,
  NONSENSE,
  NOW,
  PLANTED_MS,
  plant,
  RELEASED,
  SOUND,
  UNCERTAIN,
  unchanged,
} from '../harness/lua-records.ts'
import {
  type Fields,
  FUTURE,
  fieldsOf,
  key,
  PAST,
  record,
  redis,
  scriptsOfFile,
  serverMs,
  span,
  statusOf,
  whenFull,
} from '../harness/lua-scripts.ts'
import { startRedis } from '../harness/redis-server.ts'

scriptsOfFile()

const { beginRecord, finishRecord, inspectRecord, keepStep, settleRecord } = generated

const RETENTION_MS = 60_000
const UNCERTAIN_MS = 80_000
const LEASE_MS = 5_000
type Reply = [status: string, now: number, ...rest: Array<string | number>]

interface Begin {
  exact?: string
  canonical?: string
  leaseMs?: number
  retentionMs?: number
  maxAttempts?: number
  process?: string
}
function begin(token: string, given: Begin = {}): Promise<Reply> {
  const { exact = 'e', canonical = 'c', leaseMs = LEASE_MS, retentionMs = RETENTION_MS } = given
  const { maxAttempts = 10, process = '' } = given
  const times = [leaseMs, retentionMs, maxAttempts, UNCERTAIN_MS]
  const args = [token, exact, canonical, ...times, process]
  return call(beginRecord, args) as Promise<Reply>
}

describe('begin-record', () => {
  beforeEach(() => hearWakes('me'))

  it('replies BEGUN without a record, writes all fields, and makes a fence of whole microseconds', async () => {
    const before = await serverMs()
    const reply = await begin('t')
    const [, now, fence] = reply
    expect(reply).toEqual(['BEGUN', NOW, expect.stringMatching(/^\d{16}$/), 1, 0])
    expect(now).toBeGreaterThanOrEqual(before)
    expect(Math.floor(Number(fence) / 1_000)).toBe(now)
    const numbers = { fence, attempt: '1', lost: '0', recovery: '0', created: String(now) }
    const holder = { token: 't', until: span(now, LEASE_MS), ended: '' }
    const prints = { exact: 'e', canonical: 'c' }
    expect(await fieldsOf()).toEqual({ v: '1', s: 'running', ...prints, ...holder, ...numbers })
    await expectKept(RETENTION_MS)
  })

  it.each([
    ['after the clock was set back', '8999999999999999', '9000000000000000'],
    ['up to the greatest whole number', LARGEST, '9007199254740991'],
  ])('replies BEGUN with a fence above every earlier one, %s', async (_, ahead, next) => {
    await plant({ ...LAPSED, fence: ahead, attempt: ahead, lost: ahead })
    const more = { maxAttempts: Number(LARGEST) + 2 }
    expect((await begin('t', more))[2]).toBe(next)
    expect(await fieldsOf()).toMatchObject({ fence: next, attempt: next, lost: next })
  })

  it('replies BEGUN for a record that lacks fields of later versions', async () => {
    const known = less('token', 'until', 'recovery', 'created', 'exact')
    await plant({ ...known, s: 'released' })
    const reply = await begin('t', { exact: 'e2' })
    expect(reply.slice(3, 5)).toEqual([4, 0])
    const added = { recovery: '0', created: String(reply[1]), exact: 'e2', canonical: 'c' }
    expect(await fieldsOf()).toMatchObject(added)
    await plant(less('canonical', 'token'))
    await record({ s: 'released' })
    expect(await statusOf(begin('t', { canonical: 'c2' }))).toBe('BEGUN')
    expect(await fieldsOf()).toMatchObject({ exact: 'e', canonical: 'c2' })
  })

  it('replies BUSY for at most one more lease after the clock was set back during the lease', async () => {
    await plant({ ...SOUND, until: span((await serverMs()) + 3_600_000, 4_000) })
    const [status, now, forMs] = await begin('t')
    expect([status, forMs]).toEqual(['BUSY', 4_000])
    expect((await fieldsOf()).until).toBe(span(now, 4_000))
    const [again, later, leftMs] = await begin('t')
    expect([again, leftMs]).toEqual(['BUSY', now + 4_000 - later])
  })

  it('replies BUSY on a server without free memory, and registers no waiter', async () => {
    await plant(SOUND)
    const reply = await whenFull(() => unchanged(() => begin('t', { process: 'me' })))
    expect(reply).toEqual(['BUSY', NOW, NOW])
  })

  it('replies BUSY for a moment if no version of ours would write such a record', async () => {
    const unsound: Fields[] = [{ v: '2' }, { v: '' }, { v: '1.0' }, { s: '' }, { s: 'done' }]
    for (const field of ['until', 'fence', 'attempt', 'lost']) {
      unsound.push(...NONSENSE.map((value) => ({ [field]: value })))
    }
    const records = unsound.map((fields): Fields => ({ ...SOUND, ...fields }))
    const absent = ['v', 's', 'token', 'until', 'fence', 'attempt', 'lost']
    records.push(...absent.map((name) => less(name)), { ...COMPLETED, fence: 'x' }, { other: 1 })
    records.push({ ...SOUND, s: 'completed' }, { ...RELEASED, lost: '-1' }, { ...UNCERTAIN, v: 2 })
    for (const fields of records) {
      await plant(fields)
      for (const exact of ['e', 'other']) {
        const asked = { exact, canonical: '', process: 'me' }
        const reply = await unchanged(() => begin('holder', asked))
        expect([fields, reply]).toEqual([fields, ['BUSY', NOW, 1_000]])
      }
    }
  })

  it('replies BUSY for very long for the greatest valid end of a lease', async () => {
    await plant({ ...SOUND, until: LARGEST })
    const [status, now, forMs] = await begin('t')
    expect([status, forMs]).toEqual(['BUSY', Number(LARGEST) - now])
  })

  it('replies COMPLETED without a TTL for a record without one', async () => {
    await plant(COMPLETED)
    await redis.persist(key)
    expect(await begin('t')).toEqual(['COMPLETED', NOW, 0, 'bytes'])
  })

  it('does not reply COMPLETED for a record with a frame in another state', async () => {
    for (const [fields, status] of [
      [SOUND, 'BUSY'],
      [UNCERTAIN, 'UNCERTAIN'],
      [LAPSED, 'BEGUN'],
      [RELEASED, 'BEGUN'],
    ] as const) {
      await plant({ ...fields, frame: 'planted' })
      expect(await statusOf(begin('t'))).toBe(status)
    }
  })

  it('fails on a server without free memory: no attempt begins, and nothing changes', async () => {
    await expect(whenFull(() => begin('t'))).rejects.toThrow('OOM')
    expect(await redis.exists(key)).toBe(0)
    for (const fields of [LAPSED, RELEASED]) {
      await plant(fields)
      const refused = () => expect(begin('t')).rejects.toThrow('OOM')
      await whenFull(() => unchanged(refused))
    }
    await plant(LAPSED)
    const doubt = () => expect(begin('t', { maxAttempts: 1 })).rejects.toThrow('OOM')
    await whenFull(() => unchanged(doubt))
  })
})

describe('keep-step', () => {
  beforeEach(() => hearWakes())
  const keep = (name: string, value: string | Buffer, token = 'holder', fence = '7') =>
    call(keepStep, [token, fence, name, value, KEEP_MS])

  it('replies KEPT, and sets a TTL on a record without one', async () => {
    await plant(SOUND)
    await redis.persist(key)
    expect(await keep('ship', 'sent')).toBe('KEPT')
    await expectKept(KEEP_MS)
  })

  it('replies KEPT on a server without free memory', async () => {
    await plant(SOUND)
    expect(await whenFull(() => keep('ship', 'sent'))).toBe('KEPT')
    expect(await fieldsOf()).toEqual({ ...SOUND, 's:ship': 'sent' })
    await expectKept(PLANTED_MS)
  })
})

describe('inspect-record', () => {
  beforeEach(() => hearWakes())
  type Inspected = [state: string, attempt: string, fence: string, ...Array<string | number>]
  const inspect = () => unchanged(() => call(inspectRecord, [])) as Promise<Inspected>

  it('replies with at most one lease after the clock was set back during it', async () => {
    await plant({ ...SOUND, until: span((await serverMs()) + 3_600_000, 4_000) })
    expect((await inspect()).slice(0, 4)).toEqual(['running', '3', '7', 4_000])
  })

  it('replies with all digits of numbers that a float cannot represent', async () => {
    const huge = '9007199254740993'
    await plant({ ...SOUND, fence: huge, attempt: huge })
    expect((await inspect()).slice(0, 3)).toEqual(['running', huge, huge])
  })

  it('replies UNKNOWN if no version of ours would write such a record', async () => {
    const planted: Fields[] = [{ v: '2' }, { v: '' }, { s: 'done' }, { s: '' }]
    for (const field of ['attempt', 'fence']) {
      const notWhole = NONSENSE.filter((value) => !/^\d+$/.test(value))
      planted.push(...notWhole.map((value) => ({ [field]: value })))
    }
    const records = planted.map((fields): Fields => ({ ...SOUND, ...fields }))
    for (const name of ['v', 's', 'attempt', 'fence']) records.push(less(name))
    for (const fields of records) {
      await plant(fields)
      expect([fields, await inspect()]).toEqual([fields, ['UNKNOWN']])
    }
  })

  it('replies "running" for a very long time if the end of the lease is invalid', async () => {
    for (const until of [...NONSENSE, `${PAST}x`, LARGEST]) {
      await plant({ ...SOUND, until })
      expect([until, ...(await inspect())].slice(0, 5)).toEqual([until, 'running', '3', '7', 1e13])
    }
    await plant(less('until'))
    expect((await inspect()).slice(0, 4)).toEqual(['running', '3', '7', 1e13])
  })

  it('replies with age 0 for a start in the future, and with the greatest age without a start', async () => {
    for (const created of [(await serverMs()) + 60_000, FUTURE, LARGEST, '9'.repeat(400)]) {
      await plant({ ...SOUND, created })
      expect((await inspect())[4]).toBe(0)
    }
    for (const created of ['', 'x', '-5', `${FUTURE}x`, `-${FUTURE}`]) {
      const before = await serverMs()
      await plant({ ...SOUND, created })
      const age = Number((await inspect())[4])
      expect(age).toBeGreaterThanOrEqual(before)
      expect(age).toBeLessThanOrEqual(await serverMs())
    }
  })

  it('replies without a TTL for a record without one', async () => {
    await plant(SOUND)
    await redis.persist(key)
    expect((await call(inspectRecord, [])) as Inspected).toMatchObject({ 5: 0 })
  })
})

describe('idempotency scripts in a cluster', () => {
  it('run in a cluster on the slot of their only key', async () => {
    await using node = await startRedis({
      port: await freeClusterPort(),
      args: ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no'],
    })
    const client = new Redis(node.url)
    await client.cluster('ADDSLOTS', await client.cluster('KEYSLOT', key))
    // Waits for replicas, of which there are none.
    const info = () => client.cluster('INFO')
    await expect.poll(info).toContain('cluster_state:ok')
    // The cluster would refuse any other key.
    const stray = "return redis.call('EXISTS', 'some other key')"
    await expect(client.eval(stray, 1, key)).rejects.toThrow(/non local key|slot not served/)
    const times = [LEASE_MS, RETENTION_MS, 'takeover', 10, UNCERTAIN_MS]
    const begin = (token: string) =>
      call(beginRecord, [token, 'e', 'c', ...times, 'me', 0], client) as Promise<Reply>
    const [status, , fence = ''] = await begin('t')
    expect(status).toBe('BEGUN')
    expect(await statusOf(begin('other'))).toBe('BUSY')
    expect(await call(keepStep, ['t', fence, 'pay', 'paid', KEEP_MS], client)).toBe('KEPT')
    const finish = (as: string) => {
      const args = ['t', fence, as, KEEP_MS, 'bytes', 'e', 'c', 'the key', 'wake ', 0]
      return statusOf(call(finishRecord, args, client))
    }
    expect(await finish('uncertain')).toBe('FINISHED')
    const word = ['released', KEEP_MS, '', 0, 'the key', 'wake ', 'settled', 0]
    expect(await statusOf(call(settleRecord, word, client))).toBe('SETTLED')
    expect(await statusOf(call(inspectRecord, [], client))).toBe('released')
    await client.del(key)
    expect(await finish('completed')).toBe('RESURRECTED')
    client.disconnect()
  })

  it('name no key but their first', () => {
    for (const { name, keys, source } of [
      beginRecord,
      finishRecord,
      inspectRecord,
      keepStep,
      settleRecord,
    ]) {
      expect([name, keys, source.match(/KEYS\[.*?\]/g)]).toEqual([name, 1, ['KEYS[1]']])
    }
  })
})
