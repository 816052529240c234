import { describe, expect, it } from 'vitest'
import { CommandQueue } from './servers.ts'

const BEGINS = true
const ENDS = false
const ONE = { size: 1, start() {} }

/** Enters operations until one has to wait. Returns how many did not. */
function fill(queue: CommandQueue, begins: boolean): number {
  const before = queue.queued
  let entered = 0
  for (; queue.queued === before; entered++) queue.enter(ONE, begins)
  return entered - 1
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

describe('the queue in front of a server', () => {
  it('lets at most some 200 commands be in flight, and keeps a part free for ends', () => {
    const queue = new CommandQueue()
    const beginning = fill(queue, BEGINS)
    const ending = fill(queue, ENDS)
    expect(beginning + ending).toBeLessThanOrEqual(200)
    expect(ending).toBeGreaterThanOrEqual(32)
    expect(queue.queued).toBe(2)
  })

  it('counts a command for many keys as that many', () => {
    const queue = new CommandQueue()
    const many = { size: 64, start() {} }
    const queued = Array.from({ length: 6 }, () => queue.enter(many, BEGINS))
    expect(queued.filter((isQueued) => !isQueued)).toHaveLength(2)
    queue.leave(many, { isDoubtful: false })
    expect(queue.queued).toBe(3)
  })

  it('sends the first in first, and ends before beginnings', async () => {
    const queue = new CommandQueue()
    const inFlight = fill(queue, BEGINS) + fill(queue, ENDS)
    const sent: string[] = []
    for (const name of ['lookup 1', 'commit 1', 'lookup 2', 'purge 1']) {
      const start = () => void sent.push(name)
      queue.enter({ size: 1, start }, name.startsWith('lookup') ? BEGINS : ENDS)
    }
    for (let i = 0; i < inFlight + 2; i++) queue.leave(ONE, { isDoubtful: false })
    await turn()
    expect(sent).toEqual(['commit 1', 'purge 1', 'lookup 1', 'lookup 2'])
  })

  it('starts operations only after a loop that begins many', async () => {
    const queue = new CommandQueue()
    const started: number[] = []
    for (let i = 0; i < 100; i++)
      queue.enter({ size: 1, start: () => void started.push(i) }, BEGINS)
    expect(started).toEqual([])
    await turn()
    expect(started).toHaveLength(100)
  })

  it('reports a command that waits, and no other', () => {
    const queue = new CommandQueue()
    let queued = 0
    for (let i = 0; i < 1_000; i++) if (queue.enter(ONE, BEGINS)) queued += 1
    expect(queued).toBe(queue.queued)
    expect(queued).toBeGreaterThan(800)
  })

  it('sends nothing while the server may be unavailable, until no command is in flight', async () => {
    const queue = new CommandQueue()
    const inFlight = fill(queue, BEGINS)
    for (let i = 1; i < inFlight; i++) queue.leave(ONE, { isDoubtful: true })
    expect(queue.queued).toBe(1)
    queue.enter(ONE, BEGINS)
    expect(queue.queued).toBe(2)
    queue.leave(ONE, { isDoubtful: true })
    expect(queue.queued).toBe(0)
  })

  it('sends as many as possible once the server has replied', async () => {
    const queue = new CommandQueue()
    fill(queue, BEGINS)
    for (let i = 0; i < 50; i++) queue.enter(ONE, BEGINS)
    for (let i = 0; i < 40; i++) queue.leave(ONE, { isDoubtful: true })
    expect(queue.queued).toBe(51)
    queue.leave(ONE, { isDoubtful: false })
    expect(queue.queued).toBe(10)
  })
})
