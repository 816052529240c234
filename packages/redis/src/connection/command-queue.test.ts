import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { CommandQueue } from './command-queue.ts'

/** Enters commands until one has to wait. */
function fill(queue: CommandQueue, begins: boolean): number {
  let sent = 0
  while (queue.enter(begins) === true) sent += 1
  return sent
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

describe('the queue in front of a server', () => {
  it('lets at most some 200 commands be in flight, and keeps a part free for ends', () => {
    const queue = new CommandQueue(new ManualClock())
    const beginning = fill(queue, true)
    const ending = fill(queue, false)
    expect(beginning + ending).toBeLessThanOrEqual(200)
    expect(ending).toBeGreaterThanOrEqual(32)
    expect(queue.queued).toBe(2)
  })

  it('sends the first in first, and ends before beginnings', async () => {
    const queue = new CommandQueue(new ManualClock())
    const inFlight = fill(queue, true) + fill(queue, false)
    const sent: string[] = []
    for (const name of ['lookup 1', 'commit 1', 'lookup 2', 'purge 1']) {
      void Promise.resolve(queue.enter(name.startsWith('lookup'))).then(() => sent.push(name))
    }
    for (let i = 0; i < inFlight + 2; i++) queue.leave(false)
    await turn()
    expect(sent).toEqual(['commit 1', 'purge 1', 'lookup 1', 'lookup 2'])
  })

  it('reports a command that waits, and no other', () => {
    const queue = new CommandQueue(new ManualClock())
    let queued = 0
    for (let i = 0; i < 1_000; i++) void queue.enter(true, () => (queued += 1))
    expect(queued).toBe(queue.queued)
    expect(queued).toBeGreaterThan(800)
  })

  it('gives up a command after 30 s, and sends the next one', async () => {
    const clock = new ManualClock()
    const queue = new CommandQueue(clock)
    fill(queue, true)
    const old = queue.enter(true)
    await clock.advance(20_000)
    const young = queue.enter(true)
    await clock.advance(15_000)
    for (let i = 0; i < 3; i++) queue.leave(false)
    expect([await old, await young]).toEqual([false, true])
  })

  it('sends nothing while the server may be unavailable, until no command is in flight', async () => {
    const queue = new CommandQueue(new ManualClock())
    const inFlight = fill(queue, true)
    for (let i = 1; i < inFlight; i++) queue.leave(true)
    expect(queue.queued).toBe(1)
    const next = queue.enter(true)
    expect(queue.queued).toBe(2)
    queue.leave(true)
    expect(await next).toBe(true)
  })

  it('sends as many as possible once the server has replied', async () => {
    const queue = new CommandQueue(new ManualClock())
    fill(queue, true)
    for (let i = 0; i < 50; i++) void queue.enter(true)
    for (let i = 0; i < 40; i++) queue.leave(true)
    expect(queue.queued).toBe(51)
    queue.leave(false)
    expect(queue.queued).toBe(10)
  })
})
