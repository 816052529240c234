// Tests of the layers of an Express app, for the check of the mount order.

import express, { type RequestHandler } from 'express'
import { expect, it } from 'vitest'
import { layersOf } from './layers.ts'

const pass: RequestHandler = (_req, _res, next) => next()

/** An app of `connect`, such as `vite.middlewares`: its layers have a string as their route. */
const connectApp = Object.assign((...args: Parameters<RequestHandler>) => pass(...args), {
  stack: [
    { route: '', handle: pass },
    { route: '/assets', handle: pass },
  ],
})

it('counts the layers of a mounted connect app as middlewares', () => {
  const app = express()
  const self: RequestHandler = (_req, _res, next) => next()
  app.use(connectApp)
  app.use(self)
  app.get('/', pass)
  expect(layersOf(app, self, ['GET'])).toEqual(['middleware', 'middleware', 'self', 'route'])
})
