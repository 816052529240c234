// Loaded into each process of a suite with --import. It puts a cache in front of every server that
// the suite creates.

import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import { createStampede } from '@stampede/core'
import { stampedeFront } from '@stampede/node-http'

for (const [module, name] of [
  [http, 'createServer'],
  [https, 'createServer'],
  [http2, 'createServer'],
  [http2, 'createSecureServer'],
]) {
  const create = module[name]
  module[name] = (...args) => {
    const at = args.findIndex((arg) => typeof arg === 'function')
    if (at >= 0) {
      // One cache per server, so that no test sees entries of another.
      const options = { stampede: createStampede(), ttlMs: 60_000 }
      args[at] = stampedeFront(args[at], options)
    }
    return create.apply(module, args)
  }
}
syncBuiltinESMExports()
