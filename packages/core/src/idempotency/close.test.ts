// close() of a process with idempotency keys: it stores results for a short time, and leaves no
// work behind.

import { beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import { settled } from '../testing/index.ts'
import { Gate, refuse } from '../testing/store-doubles.ts'

let bench: IdempotencyBench
let ask: ReturnType<IdempotencyBench['route']>

beforeEach(() => {
  bench = new IdempotencyBench()
  ask = bench.route()
})

async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false
  void promise.then(() => {
    done = true
  })
  await settled()
  return done
}

describe('close() of a Stampede with idempotency keys', () => {
  it('waits for a running attempt, which is stored, and refuses new requests', async () => {
    const request = await ask()
    bench.store.take()
    const closed = bench.stampede.close()
    await bench.clock.advance(500)
    expect((await ask({ key: 'k-2' })).got?.status).toBe(503)
    expect(await isDone(closed)).toBe(false)
    await request.answer({ body: 'made' })
    await bench.clock.advance(10)
    expect(await isDone(closed)).toBe(true)
    expect(bench.store.take()).toEqual(['finish completed', 'close'])
  })

  it('tries once more to store the unstored results', async () => {
    const request = await ask()
    bench.store.next('finish', refuse)
    await request.answer()
    bench.store.take()
    const closed = bench.stampede.close()
    await bench.clock.advance(10)
    await closed
    expect(bench.store.take()).toEqual(['finish completed', 'close'])
  })

  it('waits for at most two seconds, and then ends the leases of running attempts', async () => {
    const request = await ask()
    const closed = bench.stampede.close()
    await bench.clock.advance(2_000)
    expect(await isDone(closed)).toBe(true)
    expect(request.attempt.signal.aborted).toBe(true)
    expect(bench.left).toEqual(NOTHING_LEFT)
    // The connection to the server has ended.
    bench.store.always = refuse
    await request.answer({ body: 'made' })
    expect(request.got?.body).toBe('made')
    await bench.clock.advance(30_000)
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect(bench.clock.timers).toBe(0)
  })

  it('waits for the reply to a begin command', async () => {
    const gate = new Gate()
    bench.store.next('begin', gate.delayReply)
    const request = await ask()
    const closed = bench.stampede.close()
    await bench.clock.advance(500)
    expect(await isDone(closed)).toBe(false)
    gate.open()
    await settled()
    await request.answer()
    await bench.clock.advance(10)
    expect(await isDone(closed)).toBe(true)
    expect(bench.store.take()).toEqual(['begin', 'finish completed', 'close'])
  })

  it('gives waiters the response, or a 409 to retry', async () => {
    ask = bench.route({ onBusy: 'wait' })
    const [done, hung] = [await ask({ key: 'done' }), await ask({ key: 'hung' })]
    const [first, second] = [await ask({ key: 'done' }), await ask({ key: 'hung' })]
    const closed = bench.stampede.close()
    await done.answer({ body: 'made' })
    await settled()
    expect(first.got?.body).toBe('made')
    await bench.clock.advance(2_000)
    await closed
    expect(second.got?.status).toBe(409)
    expect(second.isRunning).toBe(false)
    await hung.answer()
    await bench.clock.advance(60_000)
    expect(bench.clock.timers).toBe(0)
  })

  it('makes later requests, jobs and operator calls fail', async () => {
    const { stampede } = bench
    await stampede.close()
    expect((await ask()).got?.status).toBe(503)
    const code = 'ERR_STAMPEDE_CLOSED'
    await expect(stampede.idempotent('job', () => 1)).rejects.toMatchObject({ code })
    await expect(stampede.idempotency.inspect('job')).rejects.toMatchObject({ code })
    await expect(stampede.idempotency.release('job')).rejects.toMatchObject({ code })
  })
})
