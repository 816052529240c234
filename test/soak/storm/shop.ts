// The origin of the storm, in the test process: pages with versions, and orders that run.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { at, type Orders, type Pages } from './truth.ts'

export const TAGS = 40

/** The tag of a page. All pages with the same remainder have it. */
export const tagOf = (page: number): string => `t${page % TAGS}`

export interface Shop extends AsyncDisposable {
  readonly url: string
  /** Runs of the handler for this page. */
  runs(path: string): number
}

/** Pages take 5 to 24 ms, orders 20 to 210 ms: long enough for faults in the middle. */
export async function openShop(pages: Pages, orders: Orders): Promise<Shop> {
  const runs = new Map<string, number>()
  const server = createServer(async ({ method, url = '', headers }, res) => {
    const n = Number(url.split('/').at(-1))
    if (method === 'POST') {
      const order = orders.all.get(url)
      if (order === undefined) return void res.writeHead(404).end()
      order.effects += 1
      order.story.push(`${at()} carried out: ${headers['x-attempt']}`)
      const body = JSON.stringify({ path: url, run: order.effects })
      await sleep(20 + (n % 20) * 10)
      return void res.writeHead(201).end(body)
    }
    runs.set(url, (runs.get(url) ?? 0) + 1)
    const body = JSON.stringify({ path: url, version: pages.version(url) })
    await sleep(5 + (n % 20))
    res.writeHead(200, { 'cache-tag': tagOf(n) }).end(body)
  })
  // Longer than any pause of a member. Otherwise a request may meet a connection that is being
  // closed.
  server.keepAliveTimeout = 120_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    runs: (path) => runs.get(path) ?? 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
