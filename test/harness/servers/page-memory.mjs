// A server whose cache is filled far beyond its limit. Prints how much memory the process takes
// above the same load without the cache, and what the program of a page shows (PROGRAM).
// @ts-check

import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { createStampede } from '@stampede/core'
import { stampedeFront } from '@stampede/node-http'

const PAGES = 13_504
const BODY = 'x'.repeat(20_000)

const stampede = createStampede()
const front = stampedeFront((req, res) => void res.end(`${req.url} ${BODY}`), {
  stampede,
  ttlMs: 3_600_000,
})
const server = createServer(front).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
const agent = new Agent({ keepAlive: true, maxSockets: 16 })

/**
 * @param {string} path
 * @param {Record<string, string>} headers
 */
async function get(path, headers) {
  const sent = request({ port, host: '127.0.0.1', path, headers, agent }).end()
  const [response] = await once(sent, 'response')
  for await (const _ of response);
}

/**
 * The most memory that the process takes while clients ask for all pages.
 * @param {Record<string, string>} headers
 */
async function mostMemory(headers) {
  let most = 0
  for (let from = 0; from < PAGES; from += 16) {
    await Promise.all(Array.from({ length: 16 }, (_, i) => get(`/${from + i}`, headers)))
    most = Math.max(most, process.memoryUsage.rss())
  }
  return most
}

const without = await mostMemory({ cookie: 'bypass=1' })
const withCache = await mostMemory({})
const { bytes, maxBytes } = stampede.stats().l1
/** @type {unknown} */
let shown
const logger = { warn: (/** @type {unknown} */ value) => (shown = value) }
new Function('stampede', 'logger', process.env.PROGRAM ?? '')(stampede, logger)
console.log(JSON.stringify({ without, withCache, bytes, maxBytes, shown }))
agent.destroy()
server.close()
await stampede.close()
