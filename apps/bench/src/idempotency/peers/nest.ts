// @node-idempotency/nestjs: its module with the Redis adapter, and its decorator on every handler.
// Handlers return the body and set the rest on the response.
import 'reflect-metadata'
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import {
  Controller,
  HttpCode,
  HttpException,
  Module,
  Post,
  Redirect,
  Req,
  Res,
  StreamableFile,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Idempotent, NodeIdempotencyModule, StorageAdapterEnum } from '@node-idempotency/nestjs'
import type { Request, Response } from 'express'
import {
  BYTES,
  beginRun,
  chunksOf,
  FAILURE,
  FILE,
  LARGE,
  locationOf,
  order,
  pathOf,
  type Run,
  WAYS,
  type Way,
} from '../orders.ts'

function json(res: Response, { id }: Run): object {
  res.setHeader('Location', locationOf(id))
  return order(id)
}

const failing = (error: Error) => (res: Response, run: Run) => {
  if (run.attempt === 1) throw error
  return json(res, run)
}

const responders: Readonly<Record<Way, (res: Response, run: Run) => unknown>> = {
  json,
  other: (_res, { id }) => ({ other: id }),
  empty: (res, { id }) => void res.setHeader('Location', locationOf(id)),
  'no-content': () => undefined,
  binary: () => new StreamableFile(BYTES, { type: 'application/octet-stream' }),
  stream: (_res, { id }) => new StreamableFile(Readable.from(chunksOf(id)), { type: 'text/plain' }),
  redirect: (_res, { id }) => ({ url: locationOf(id), statusCode: 303 }),
  file: () => new StreamableFile(createReadStream(FILE), { type: 'text/plain' }),
  throws: failing(new Error('the handler failed')),
  unavailable: failing(new HttpException(FAILURE, 503)),
  limited: failing(new HttpException(FAILURE, 429)),
  cookie: (res, run) => json(res.cookie('session', run.id), run),
  large: (_res, { id }) => ({ id, text: LARGE }),
}

/** TypeScript only erases types here, so the decorators are applied by hand. */
class Orders {
  [name: string]: (req: Request, res: Response) => Promise<unknown>
}

for (const way of WAYS) {
  const value = async (req: Request, res: Response) =>
    responders[way](res, await beginRun(req.headers))
  const descriptor: PropertyDescriptor = { value, writable: true, configurable: true }
  Object.defineProperty(Orders.prototype, way, descriptor)
  const decorators = [Post(pathOf(way)), Idempotent({})]
  if (way === 'no-content') decorators.push(HttpCode(204))
  if (['binary', 'stream', 'file', 'large'].includes(way)) decorators.push(HttpCode(200))
  if (way === 'redirect') decorators.push(Redirect())
  for (const decorate of decorators) decorate(Orders.prototype, way, descriptor)
  Req()(Orders.prototype, way, 0)
  Res({ passthrough: true })(Orders.prototype, way, 1)
}
Controller()(Orders)

class App {}

export async function start(url: string): Promise<number> {
  const storage = { adapter: StorageAdapterEnum.redis, options: { url } }
  const imports = [NodeIdempotencyModule.forRootAsync({ storage } as never)]
  Module({ imports, controllers: [Orders] })(App)
  const app = await NestFactory.create(App, { logger: ['error', 'warn'] })
  await app.listen(0, '127.0.0.1')
  return (app.getHttpServer().address() as { port: number }).port
}
