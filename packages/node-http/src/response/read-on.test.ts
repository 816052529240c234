import { once } from 'node:events'
import { connect, createServer, type Http2ServerResponse } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import type { LiveFeed } from './live-feed.ts'
import { shield } from './read-on.ts'

test('a source stream with other readers continues when a client leaves on HTTP/2', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const request = client.request({ ':path': '/' }).on('error', () => {})
  const [, res]: Http2ServerResponse[] = await once(server, 'request')
  const source = new PassThrough()
  // The objects of HTTP/2 have the members of HTTP/1 that are used here.
  shield(source, res as never, { watched: true } as LiveFeed)
  request.close(8)
  if (res !== undefined) await once(res.stream, 'close')
  source.destroy()
  expect(source.destroyed).toBe(false)
  client.destroy()
  await new Promise((resolve) => server.close(resolve))
})
