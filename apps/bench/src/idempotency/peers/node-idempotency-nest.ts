// @node-idempotency/nestjs: its module with the Redis adapter, and its decorator on every handler.
import 'reflect-metadata'
import { Controller, HttpCode, Module, Post, Redirect, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Idempotent, NodeIdempotencyModule, StorageAdapterEnum } from '@node-idempotency/nestjs'
import type { Request, Response } from 'express'
import { nestHandlers } from '../handlers/nest-handlers.ts'
import { pathOf, WAYS } from '../orders.ts'
import { beginRun } from '../runs.ts'

/** TypeScript only erases types here, so the decorators are applied by hand. */
class Orders {
  [name: string]: (req: Request, res: Response) => Promise<unknown>
}

for (const way of WAYS) {
  const handler = async (req: Request, res: Response) =>
    nestHandlers[way](res, await beginRun(req.headers))
  const descriptor: PropertyDescriptor = { value: handler, writable: true, configurable: true }
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
