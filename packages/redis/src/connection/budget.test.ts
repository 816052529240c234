import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { systemClock } from '@stampede/core/store'
import { describe, expect, it } from 'vitest'
import { withBudget } from './budget.ts'
import { type Limited, TimeLimits } from './servers.ts'

/** Both ends of a connection. */
async function connected(): Promise<{ client: Socket; peer: Socket; close(): void }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [peer] = (await once(server, 'connection')) as [Socket]
  if (client.connecting) await once(client, 'connect')
  const close = () => {
    client.destroy()
    peer.destroy()
    server.close()
  }
  return { client, peer, close }
}

/** A step that waits for `ms`, and resolves with its name at the end of its time. */
function step(limits: TimeLimits, ms: number): Limited & { expired: Promise<number> } {
  const startedAt = performance.now()
  let expire: () => void = () => {}
  const expired = new Promise<number>((resolve) => {
    expire = () => {
      limits.delete(limited)
      resolve(performance.now() - startedAt)
    }
  })
  const limited = { limitMs: ms, dueAt: 0, place: -1, expire, expired }
  limits.add(limited)
  return limited
}

describe('the time limits of a link', () => {
  it('end each step at its own time, in whichever order they were added', async () => {
    const limits = new TimeLimits(systemClock)
    const steps = [60, 20, 40].map((ms) => ({ ms, ...step(limits, ms) }))
    for (const { ms, expired } of steps) {
      const tookMs = await expired
      expect(tookMs).toBeGreaterThan(ms - 2)
    }
    // A later step begins another timer.
    expect(await step(limits, 10).expired).toBeGreaterThan(8)
  })

  it('do not end a step that got its reply', async () => {
    const limits = new TimeLimits(systemClock)
    const ended: string[] = []
    const [first, second] = [step(limits, 10), step(limits, 15)]
    void first.expired.then(() => ended.push('first'))
    void second.expired.then(() => ended.push('second'))
    limits.delete(first)
    // A step that is added now ends after both.
    await step(limits, 20).expired
    expect(ended).toEqual(['second'])
  })

  it('do not end a step while the event loop is blocked if the reply has already arrived', async () => {
    const { client, peer, close } = await connected()
    const limits = new TimeLimits(systemClock)
    // The timer of an earlier step fires first, and the block comes right after it.
    for (const earlierMs of [60_000, 5]) {
      const earlier = step(limits, earlierMs)
      const asked = step(limits, 10)
      const answer = once(client, 'data').then(([data]) => {
        limits.delete(asked)
        return String(data)
      })
      // In the check phase: timers come next, and only then sockets are read.
      await new Promise(setImmediate)
      // The reply is in the buffer of our socket at once.
      peer.write('there')
      const end = performance.now() + 50
      while (performance.now() < end);
      expect(await Promise.race([answer, asked.expired])).toBe('there')
      limits.delete(earlier)
    }
    close()
  })

  it('begin after the turn of the event loop in which the command was given', async () => {
    let blockedMs = 0
    const limits = new TimeLimits({ ...systemClock, now: () => systemClock.now() + blockedMs })
    const earlier = step(limits, 5)
    await new Promise(setImmediate)
    const asked = step(limits, 20_000)
    let isOver = false
    void asked.expired.then(() => {
      isOver = true
    })
    // The callers of other replies block the loop. node-redis sends the command only after them.
    blockedMs = 60_000
    await earlier.expired
    expect(isOver).toBe(false)
  })

  it('end a step in time although the clock has jumped', async () => {
    let jumpedMs = 0
    const limits = new TimeLimits({ ...systemClock, now: () => systemClock.now() + jumpedMs })
    const long = step(limits, 60_000)
    await new Promise((resolve) => setImmediate(resolve))
    jumpedMs = 120_000
    expect(await step(limits, 20).expired).toBeLessThan(5_000)
    expect(await long.expired).toBeLessThan(5_000)
  })

  it('keep no process alive, and no timer for each step', async () => {
    const limits = new TimeLimits(systemClock)
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    for (let i = 0; i < 100; i++) step(limits, 60_000)
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    expect(after).toBeLessThanOrEqual(before)
  })
})

describe('a time budget', () => {
  it('ends if no reply comes', async () => {
    await expect(withBudget(10, new Promise(() => {}))).rejects.toThrow('no reply within 10 ms')
  })

  it('does not end while the event loop is blocked if the reply has already arrived', async () => {
    const { client, peer, close } = await connected()
    const answer = once(client, 'data').then(([data]) => String(data))
    // In the check phase: timers come next, and only then sockets are read.
    await new Promise(setImmediate)
    const asked = withBudget(10, answer)
    // The reply is in the buffer of our socket at once.
    peer.write('there')
    const end = performance.now() + 50
    while (performance.now() < end);
    expect(await asked).toBe('there')
    close()
  })

  it('limits each command separately', async () => {
    const never = () => new Promise(() => {})
    const asked = [
      withBudget(20, never()),
      withBudget(20, Promise.resolve('there')),
      withBudget(20, Promise.reject(new Error('refused'))),
    ]
    const seen = await Promise.allSettled(asked)
    expect(seen.map((each) => ('value' in each ? each.value : each.reason.message))).toEqual([
      'no reply within 20 ms',
      'there',
      'refused',
    ])
  })

  it('starts when the command is sent', async () => {
    const never = () => new Promise(() => {})
    const first = expect(withBudget(40, never())).rejects.toThrow('no reply')
    await withBudget(25, never()).catch(() => {})
    const startedAt = performance.now()
    await expect(withBudget(40, never())).rejects.toThrow('no reply within 40 ms')
    expect(performance.now() - startedAt).toBeGreaterThan(38)
    await first
  })

  it('leaves no timer after its end', async () => {
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    await withBudget(60_000, Promise.resolve())
    await new Promise(setImmediate)
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    expect(after).toBeLessThanOrEqual(before)
  })
})
