// Cases: a handler whose body is there at once. It must let other requests have their turns, and
// must not wait for its client.
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter } from './adapter.ts'
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
      // The buffers of streams in between hold some chunks more.
      expect(most.bytes).toBeLessThanOrEqual(2 * 64 * 1024)
    }
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
