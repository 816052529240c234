// Cases: a handler whose body is there at once. It must let other requests have their turns, and
// must not wait for its client.
import { EventEmitter } from 'node:events'
import { connect } from 'node:net'
import { getDefaultHighWaterMark, Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter, Outside } from './adapter.ts'
import { setUp } from './bench.ts'

const BYTES = 900_000

/** A body that is read synchronously, and the largest number of bytes that were read in a turn. */
function counted(chunk: Buffer) {
  const most = { bytes: 0 }
  let [inTurn, left] = [0, BYTES]
  const body = () => {
    ;[inTurn, left] = [0, BYTES]
    return new Readable({
      read() {
        if (inTurn === 0) setImmediate(() => (inTurn = 0))
        inTurn += chunk.length
        left -= chunk.length
        most.bytes = Math.max(most.bytes, inTurn)
        this.push(left > 0 ? chunk : null)
      },
    })
  }
  return { body, most }
}

/** Takes each chunk and all listeners of `drain`, as `compression` does. */
const buffering: Outside = (res, next) => {
  const own = new EventEmitter()
  const [on, write] = [res.on.bind(res), res.write.bind(res)]
  res.on = ((name: string, listener: () => void) => {
    if (name === 'drain') own.on(name, listener)
    else on(name, listener)
    return res
  }) as typeof res.on
  res.write = ((...args: Parameters<typeof write>) => {
    write(...args)
    return true
  }) as typeof res.write
  return next()
}

export function turnCases(adapter: CacheAdapter): void {
  it('lets other requests have a turn every 64 KiB on a miss', async () => {
    // Readable.toWeb() of Node reads thousands of chunks ahead, also without a cache.
    if (adapter.name.startsWith('Hono')) return
    for (const size of [100, 1_000, 16_000]) {
      const { body, most } = counted(Buffer.alloc(size, 'a'))
      const { start } = setUp(adapter, () => ({ body: body() }))
      await using app = await start()
      const answer = await ask(`${app.url}/a`)
      expect(answer.body).toHaveLength(Math.floor((BYTES - 1) / size) * size)
      // Two streams in between fill their buffers, each by one chunk too many.
      const buffered = 2 * (getDefaultHighWaterMark(false) + size)
      expect(most.bytes).toBeLessThanOrEqual(64 * 1024 + buffered)
    }
  })

  it('sends the whole stream behind a layer that takes the listeners of drain', async () => {
    const { start } = setUp(
      adapter,
      () => {
        async function* body() {
          for (let i = 0; i < 300; i++) {
            await new Promise((resolve) => setImmediate(resolve))
            yield Buffer.alloc(1_000, 'a')
          }
        }
        return { body: Readable.from(body()) }
      },
      { outside: buffering },
    )
    await using app = await start()
    for (const _round of [1, 2]) expect((await ask(`${app.url}/a`)).body).toHaveLength(300_000)
  })

  it('does not wait for a client that reads nothing', async () => {
    const { body } = counted(Buffer.alloc(1_000, 'a'))
    const { happened, start } = setUp(adapter, () => ({ body: body() }))
    await using app = await start()
    const { port } = new URL(app.url)
    const socket = connect(Number(port), '127.0.0.1').pause()
    socket.write('GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n')
    await happened('fill.committed')
    socket.destroy()
  })
}
