// Serves a folder as a static host does, for tests of built pages in a browser.

import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

export interface StaticServer {
  readonly url: string
  close(): void
}

/** @param base the path of the folder on the server, such as `/docs` */
export async function serveFolder(folder: string, base = ''): Promise<StaticServer> {
  const server = createServer(async (req, res) => {
    const { pathname } = new URL(req.url ?? '/', 'http://localhost')
    const path = pathname.slice(base.length).replace(/\/$/, '/index.html')
    try {
      if (!pathname.startsWith(`${base}/`)) throw new Error('outside of the base')
      const body = await readFile(join(folder, path))
      res.setHeader('Content-Type', TYPES[extname(path)] ?? 'application/octet-stream')
      res.end(body)
    } catch {
      res.writeHead(404).end()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://localhost:${port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
