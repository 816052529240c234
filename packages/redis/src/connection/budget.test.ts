import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { withBudget } from './budget.ts'

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
    const first = expect(withBudget(40, new Promise(() => {}))).rejects.toThrow('no reply')
    await sleep(25)
    const startedAt = performance.now()
    await expect(withBudget(40, new Promise(() => {}))).rejects.toThrow('no reply within 40 ms')
    expect(performance.now() - startedAt).toBeGreaterThan(38)
    await first
  })

  it('leaves no timer after its end', async () => {
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    await withBudget(60_000, Promise.resolve())
    await sleep(0)
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    expect(after).toBeLessThanOrEqual(before)
  })
})
