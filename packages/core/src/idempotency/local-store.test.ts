// Attempts on a store in this process: it replies at once, and stores a response as an object.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createHttpIdempotency } from '../http-idempotency.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { MemoryStore } from '../ports/store.ts'
import { createStampede, idempotencyOf, type Stampede } from '../stampede.ts'
import { ManualClock, type ScriptedRequest } from '../testing/index.ts'
import { send } from '../testing/scripted-request.ts'
import { decodeKept } from './kept-response.ts'

let clock: ManualClock
let store: MemoryStore
let stampede: Stampede

beforeEach(() => {
  open()
})
afterEach(async () => {
  await stampede.close()
  expect(clock.timers).toBe(0)
})

function open(encryptionKeys?: readonly string[]): void {
  clock = new ManualClock()
  store = memoryStore()
  const idempotency = encryptionKeys === undefined ? {} : { encryptionKeys: [...encryptionKeys] }
  stampede = createStampede({ store, clock, idempotency })
}

/** The parsed body is known at once, as if a parser had run before. */
function ask(key = 'k-1', value: unknown = { a: 1 }): ScriptedRequest {
  const scope = ({ user }: ScriptedRequest) => user as string
  const http = createHttpIdempotency<ScriptedRequest>({ stampede, scope })
  const body = { type: 'parsed', value } as const
  const request = send(http, { key, seen: body })
  request.readBody = () => body as never
  return request
}

const ref = { scope: 'user-1', key: 'k-1' }
const recordKey = () => idempotencyOf(stampede).hashes.requestKey(ref.scope, ref.key) ?? ''
const frame = async () => (await store.idempotency.inspect(recordKey()))?.frame

describe('idempotency keys on a store in this process', () => {
  it('end the response at once, and replay it', async () => {
    const first = ask()
    await vi.waitFor(() => expect(first.isRunning).toBe(true), 20_000)
    const { observer } = first
    const head = { status: 201, headers: [['x-a', 'b']] as const }
    expect(observer.onEnd({ type: 'complete', head, body: Buffer.from('made') })).toBeUndefined()
    const again = ask()
    await vi.waitFor(() => expect(again.got).toMatchObject({ status: 201, body: 'made' }), 20_000)
    expect(again.field('x-a')).toBe('b')
    const other = ask('k-1', { a: 2 })
    await vi.waitFor(() => expect(other.got?.status).toBe(422), 20_000)
  })

  it('encode the response when the store reads it, and replay it when the copy has expired', async () => {
    const first = ask()
    await vi.waitFor(() => expect(first.isRunning).toBe(true), 20_000)
    await first.answer({ status: 201, body: 'made' })
    const kept = decodeKept(recordKey(), (await frame()) as Uint8Array)
    expect(kept).toMatchObject({ type: 'response', status: 201, body: Buffer.from('made') })
    await clock.advance(120_000)
    const again = ask()
    await vi.waitFor(() => expect(again.got).toMatchObject({ status: 201, body: 'made' }), 20_000)
  })

  it('keep no larger buffer than the body that they count', async () => {
    const first = ask()
    await vi.waitFor(() => expect(first.isRunning).toBe(true), 20_000)
    const pool = Buffer.allocUnsafeSlow(64 * 1024)
    const body = pool.subarray(10, 30)
    await first.end({ type: 'complete', head: { status: 200, headers: [] }, body })
    const known = idempotencyOf(stampede).attempts.get(recordKey())
    const kept = known?.type === 'done' ? known.kept : undefined
    expect(kept?.type === 'response' && kept.body?.buffer.byteLength).toBe(20)
    const { size } = store.idempotency as unknown as { size: { bytes: number } }
    expect(size.bytes).toBeLessThan(2_000)
  })

  it('store sealed frames if there are encryption keys', async () => {
    open(['k'.repeat(32)])
    const first = ask()
    await vi.waitFor(() => expect(first.isRunning).toBe(true), 20_000)
    await first.answer({ status: 201, body: 'made' })
    expect(Buffer.from((await frame()) as Uint8Array).toString('latin1')).toMatch(/^\0SL/)
  })

  it("call the store's own methods if an application has replaced them", async () => {
    const begin = vi.spyOn(store.idempotency, 'begin')
    const finish = vi.spyOn(store.idempotency, 'finish')
    const first = ask()
    await vi.waitFor(() => expect(first.isRunning).toBe(true), 20_000)
    await first.answer({ status: 201 })
    expect([begin.mock.calls.length, finish.mock.calls.length]).toEqual([1, 1])
  })
})
