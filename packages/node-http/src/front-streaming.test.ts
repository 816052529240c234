// `collapse: 'stream'` in front of a plain listener, over real connections.

import { describe } from 'vitest'
import { stampedeFront } from './front.ts'
import { liveCases, type StartLive } from './testing/live-cases.ts'
import { serve } from './testing/raw-client.ts'

const start =
  (how: 'pipe' | 'write'): StartLive =>
  (options, run, lateCookie) => {
    const front = stampedeFront(async (_req, res) => {
      const { source, headers } = run()
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
      if (how === 'pipe') {
        source.pipe(res)
        source.once('close', () => source.readableEnded || res.destroy())
        return
      }
      try {
        for await (const chunk of source) res.write(chunk)
        res.end()
      } catch {
        res.destroy()
      }
    }, options)
    return serve((req, res) => {
      const { writeHead } = res
      const own = (...args: unknown[]) => {
        res.setHeader('Set-Cookie', 'session=1')
        return Reflect.apply(writeHead, res, args)
      }
      if (lateCookie) Object.assign(res, { writeHead: own })
      front(req, res)
    })
  }

describe('a source that is piped', () => liveCases(start('pipe')))
describe('a handler that writes', () => liveCases(start('write')))
