// The half of a fleet that runs inside each member; every script in this folder calls it once.
// @ts-check
import { once } from 'node:events'
import { createServer } from 'node:http'

/**
 * Serves `listener` on a free port, answers what the test asks, and ends on SIGTERM: in-flight
 * requests finish, `close` releases the rest, and then the process must end by itself. It is never
 * told to exit, so that a forgotten timer or socket shows as a member that does not stop.
 *
 * @param {object} options
 * @param {import('node:http').RequestListener} options.listener
 * @param {(message: any) => unknown} [options.answer] replies to `member.ask(message)`
 * @param {() => unknown} [options.close]
 * @param {number} [options.keepAliveMs] how long a connection may be idle
 */
export async function runMember({ listener, answer, close, keepAliveMs }) {
  const server = createServer(listener)
  if (keepAliveMs !== undefined) server.keepAliveTimeout = keepAliveMs
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  process.on('message', async (/** @type {any} */ { type, id, message }) => {
    if (type !== 'ask') return
    try {
      if (!answer) throw new Error('This member answers nothing')
      process.send?.({ type: 'reply', id, value: await answer(message) })
    } catch (error) {
      process.send?.({ type: 'reply', id, error: String(error) })
    }
  })

  let isStopping = false
  process.once('SIGTERM', async () => {
    isStopping = true
    const closed = once(server, 'close')
    server.close()
    await closed
    await close?.()
    if (process.connected) process.disconnect()
  })
  // The test process has ended, so nothing else will stop this member.
  process.on('disconnect', () => {
    if (!isStopping) process.exit(1)
  })

  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port')
  process.send?.({ type: 'listening', port: address.port })
}
