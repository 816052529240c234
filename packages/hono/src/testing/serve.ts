// An app of Hono on its server for Node, for tests.

import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { Hono } from 'hono'

export interface Served extends AsyncDisposable {
  readonly url: string
  ask(path: string, init?: RequestInit): Promise<Response>
  text(path: string, init?: RequestInit): Promise<string>
}

export async function serve(app: Hono, settings: Partial<Server> = {}): Promise<Served> {
  const server = Object.assign(createAdaptorServer(app) as Server, settings)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ask = (path: string, init?: RequestInit) => fetch(url + path, init)
  return {
    url,
    ask,
    text: async (path, init) => (await ask(path, init)).text(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
