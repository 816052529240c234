// The body of a web Response whose reader cancels it: the handler must stop waiting for the reader.

import { once } from 'node:events'
import { IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { createWebResponse } from './web-response.ts'

interface Started {
  readonly res: ServerResponse
  readonly body: ReadableStream<Uint8Array>
  /** Resolves when the response is closed. */
  readonly closed: Promise<unknown>
}

/** A handler that has written `first`, or its head only. */
async function start(first?: Uint8Array): Promise<Started> {
  const { res, sent } = createWebResponse(new IncomingMessage(new Socket()))
  const closed = once(res, 'close')
  res.writeHead(200)
  if (first === undefined) res.flushHeaders()
  else expect(res.write(first)).toBe(false)
  const { body } = await sent
  if (!(body instanceof ReadableStream)) throw new Error('the body is no stream')
  return { res, body, closed }
}

const LARGE = new Uint8Array(1024 * 1024)

test('closes the response of a handler that waits for the reader, if the body is cancelled unread', async () => {
  const { res, body, closed } = await start(LARGE)
  await body.cancel()
  await closed
  expect(res.destroyed).toBe(true)
})

test('closes the response if a reader cancels the body while it waits for a piece', async () => {
  const { res, body, closed } = await start()
  const reader = body.getReader()
  const read = reader.read()
  await reader.cancel()
  await closed
  expect(await read).toEqual({ done: true, value: undefined })
  expect(res.destroyed).toBe(true)
})

test('closes the response if a reader cancels the body after its first piece', async () => {
  const { body, closed } = await start(LARGE)
  const reader = body.getReader()
  expect((await reader.read()).done).toBe(false)
  await reader.cancel()
  await closed
})

test('does not fail a response that was read to its end and is then cancelled', async () => {
  const { res, body, closed } = await start()
  const reader = body.getReader()
  res.end('end')
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('end')
  expect((await reader.read()).done).toBe(true)
  await reader.cancel()
  await closed
  expect([res.errored, res.writableFinished]).toEqual([null, true])
})

test('gives the reader the error of a handler that breaks off', async () => {
  const { res, body } = await start()
  const read = body.getReader().read()
  res.destroy(new Error('broken'))
  await expect(read).rejects.toThrow('broken')
})
