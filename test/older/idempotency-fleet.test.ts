// Idempotency keys in a fleet under load, and on a Redis that loses data, freezes and refuses.

import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { type IdempotentFleet, startIdempotentFleet } from '../harness/idempotent-fleet.ts'
import type { Answer } from '../harness/load.ts'
import { createGate, type OriginAnswer } from '../harness/origin.ts'

const CREATED: OriginAnswer = { status: 201, body: 'created' }

const code = (answer: Answer): string => JSON.parse(answer.body).code
const events = (fleet: IdempotentFleet, member: number) =>
  fleet.member(member).ask<string[]>({ type: 'events' })
function openAdmin({ redis }: IdempotentFleet) {
  const client = new Redis(redis.url)
  return { client, [Symbol.dispose]: () => client.disconnect() }
}

/** Holds the first call of a path until the gate opens. */
function gated(fleet: IdempotentFleet, path = '/orders') {
  const gate = createGate()
  fleet.origin.answer(path, ({ number }) => (number === 1 ? { ...CREATED, gate } : CREATED))
  return gate
}

describe('four processes with idempotency keys', () => {
  it.each(['reject', 'wait'])(
    'run 50 handlers for 20 concurrent duplicates of each of 50 keys (%s)',
    async (onBusy) => {
      // A budget that even a busy machine keeps. The test checks the number of runs, not their
      // speed.
      const store = { commandTimeoutMs: 10_000 }
      await using fleet = await startIdempotentFleet({ size: 4, store, idempotency: { onBusy } })
      fleet.origin.answer('/orders', ({ headers }) => ({
        status: 201,
        body: `for ${headers['x-user']}`,
      }))
      const statuses = new Set<number>()
      for (let round = 0; round < 5; round++) {
        const requests = Array.from({ length: 200 }, async (_, i) => {
          await sleep(Math.random() * 5)
          const user = `user-${round}-${i % 10}`
          const { status, body } = await fleet.post(Math.floor(i / 10) % 4, '/orders', { user })
          statuses.add(status)
          if (status === 201) expect(body).toBe(`for ${user}`)
        })
        await Promise.all(requests)
      }
      expect([...statuses].sort()).toEqual(onBusy === 'wait' ? [201] : [201, 409])
      expect(fleet.origin.calls('/orders')).toBe(50)
    },
  )

  it('leave a key to an operator after three processes died during its request', async () => {
    await using fleet = await startIdempotentFleet({ size: 4, idempotency: { leaseMs: 1_000 } })
    fleet.origin.answer('/poison', { gate: createGate() })
    for (const member of [0, 1, 2]) {
      const asked = async () => {
        void fleet.post(member, '/poison')
        await sleep(20)
        return fleet.origin.calls('/poison')
      }
      await expect.poll(asked, { interval: 50 }).toBe(member + 1)
      await fleet.member(member).kill()
    }
    await expect
      .poll(async () => code(await fleet.post(3, '/poison')), { interval: 50 })
      .toBe('idempotency-outcome-uncertain')
    expect(fleet.origin.calls('/poison')).toBe(3)
    expect(fleet.origin.requests('/poison').map(({ headers }) => headers['x-attempt'])).toEqual([
      '1',
      '2',
      '3',
    ])
  })
})

describe('two processes with idempotency keys', () => {
  it('respond to waiters soon after the first client, without waiting for a lease', async () => {
    await using fleet = await startIdempotentFleet({
      idempotency: { onBusy: { waitMs: 60_000 }, leaseMs: 60_000 },
    })
    const gate = gated(fleet)
    const endedAt = async (asked: Promise<Answer>) => {
      const { status } = await asked
      return { status, at: performance.now() }
    }
    const first = endedAt(fleet.post(0, '/orders'))
    await fleet.origin.arrived('/orders')
    const waiting = Array.from({ length: 30 }, (_, i) => endedAt(fleet.post(i % 2, '/orders')))
    await sleep(300)
    gate.open()
    const { at } = await first
    for (const each of await Promise.all(waiting)) {
      expect(each.status).toBe(201)
      expect(each.at - at).toBeLessThan(20_000)
    }
  })

  it('work as usual when their clocks are two hours apart', async () => {
    const clocksMs = [3_600_000, -3_600_000]
    await using fleet = await startIdempotentFleet({ clocksMs, idempotency: { leaseMs: 3_000 } })
    const gate = gated(fleet)
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    expect((await fleet.post(1, '/orders')).status).toBe(409)
    await sleep(4_000)
    expect((await fleet.post(1, '/orders')).status).toBe(409)
    gate.open()
    expect((await first).status).toBe(201)
    expect((await fleet.post(1, '/orders')).headers['idempotency-replayed']).toBe('true')
    const other = { key: 'other' }
    expect((await fleet.post(1, '/orders', other)).status).toBe(201)
    expect((await fleet.post(0, '/orders', other)).headers['idempotency-replayed']).toBe('true')
    expect(fleet.origin.calls('/orders')).toBe(2)
  })

  it('share the result of a process that finishes its handler while it stops', async () => {
    await using fleet = await startIdempotentFleet()
    const gate = gated(fleet)
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    const stopped = fleet.member(0).stop()
    await expect.poll(async () => (await fleet.post(0, '/orders')).status).toBe(0)
    expect((await fleet.post(1, '/orders')).status).toBe(409)
    gate.open()
    expect(await first).toMatchObject({ status: 201, body: 'created' })
    expect(await stopped).toMatchObject({ code: 0 })
    expect(await fleet.post(1, '/orders')).toMatchObject({ status: 201, body: 'created' })
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('do not run a request again whose response they cannot decrypt', async () => {
    const [old, next] = ['o'.repeat(32), 'n'.repeat(32)]
    const idempotency = { secret: 's'.repeat(32) }
    await using fleet = await startIdempotentFleet({
      stampede: [
        { idempotency: { ...idempotency, encryptionKeys: [old] } },
        { idempotency: { ...idempotency, encryptionKeys: [next, old] } },
      ],
    })
    fleet.origin.answer('/orders', CREATED)
    await fleet.post(0, '/orders', { key: 'before' })
    expect((await fleet.post(1, '/orders', { key: 'before' })).body).toBe('created')
    await fleet.post(1, '/orders', { key: 'after' })
    const unread = await fleet.post(0, '/orders', { key: 'after' })
    expect([unread.status, code(unread)]).toEqual([409, 'idempotency-response-not-retained'])
    expect(fleet.origin.calls('/orders')).toBe(2)
  })

  it('share no keys if their secrets differ', async () => {
    await using fleet = await startIdempotentFleet({
      stampede: ['a', 'b'].map((each) => ({ idempotency: { secret: each.repeat(32) } })),
    })
    fleet.origin.answer('/orders', ({ number }) => ({ status: 201, body: `run ${number}` }))
    for (const _ of [1, 2]) {
      expect((await fleet.post(0, '/orders')).body).toBe('run 1')
      expect((await fleet.post(1, '/orders')).body).toBe('run 2')
    }
  })
})

describe('idempotency keys on a faulty Redis', () => {
  it('store the response when Redis loses the record while the handler runs', async () => {
    await using fleet = await startIdempotentFleet()
    using admin = openAdmin(fleet)
    const gate = gated(fleet)
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    await admin.client.flushall()
    gate.open()
    expect((await first).status).toBe(201)
    expect(await events(fleet, 0)).toEqual(['started', 'completed: resurrected'])
    expect(await fleet.post(1, '/orders')).toMatchObject({ status: 201, body: 'created' })
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('keep one response when Redis loses the record and another process begins meanwhile', async () => {
    await using fleet = await startIdempotentFleet()
    using admin = openAdmin(fleet)
    const gate = createGate()
    fleet.origin.answer('/orders', ({ number }) => ({
      status: 201,
      body: `run ${number}`,
      ...(number === 1 && { gate }),
    }))
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    await admin.client.flushall()
    // The loss costs a second run, because no process knows of the first. The first response goes
    // only to its own client.
    expect((await fleet.post(1, '/orders')).body).toBe('run 2')
    gate.open()
    expect((await first).body).toBe('run 1')
    expect(await events(fleet, 0)).toContain('completed: stale')
    for (const member of [0, 1]) expect((await fleet.post(member, '/orders')).body).toBe('run 2')
    expect(fleet.origin.calls('/orders')).toBe(2)
  })

  it('run a completed request again when Redis loses its record, except in the process that remembers it', async () => {
    await using fleet = await startIdempotentFleet()
    using admin = openAdmin(fleet)
    fleet.origin.answer('/orders', ({ number }) => ({ status: 201, body: `run ${number}` }))
    await fleet.post(0, '/orders')
    await admin.client.flushall()
    expect((await fleet.post(0, '/orders')).body).toBe('run 1')
    expect((await fleet.post(1, '/orders')).body).toBe('run 2')
  })

  it('delay the client by a time budget when Redis freezes while the handler runs', async () => {
    await using fleet = await startIdempotentFleet()
    const gate = gated(fleet)
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    await fleet.redis.pause()
    gate.open()
    // Redis stays frozen until the response.
    expect(await first).toMatchObject({ status: 201, body: 'created' })
    expect((await fleet.post(0, '/orders')).body).toBe('created')
    await fleet.redis.resume()
    await expect.poll(async () => (await fleet.post(1, '/orders')).status).toBe(201)
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('run nothing while Redis refuses writes, and respond 503 with Retry-After', async () => {
    await using fleet = await startIdempotentFleet({ size: 1 })
    using admin = openAdmin(fleet)
    const { client } = admin
    const call = async (...lines: string[]) => {
      for (const line of lines) {
        const [name = '', ...args] = line.split(' ')
        await client.call(name, ...args)
      }
    }
    const toReplica = 'REPLICAOF 127.0.0.1 1'
    const toMaster = 'REPLICAOF NO ONE'
    const stale = 'CONFIG SET replica-serve-stale-data'
    const quorum = 'CONFIG SET min-replicas-to-write'
    const refusals: ReadonlyArray<readonly [string, string[], string[]]> = [
      ['OOM', ['CONFIG SET maxmemory 1'], ['CONFIG SET maxmemory 0']],
      ['READONLY', [toReplica], [toMaster]],
      ['MASTERDOWN', [toReplica, `${stale} no`], [`${stale} yes`, toMaster]],
      ['NOREPLICAS', [`${quorum} 3`], [`${quorum} 0`]],
    ]
    await fleet.post(0, '/orders', { key: 'warm-up' })
    for (const [key, refuse, relent] of refusals) {
      await call(...refuse)
      const refused = await fleet.post(0, '/orders', { key })
      expect([refused.status, code(refused), refused.headers['retry-after']], key).toEqual([
        503,
        'idempotency-store-unavailable',
        '1',
      ])
      await call(...relent)
      const status = async () => (await fleet.post(0, '/orders', { key })).status
      await expect.poll(status).toBe(200)
    }
    expect(fleet.origin.calls('/orders')).toBe(1 + refusals.length)
  })
})
