// Types for packages without types: only the parts that the benchmarks use.

declare module 'apicache' {
  interface ApiCache {
    middleware(duration: string): import('express').RequestHandler
    newInstance(): ApiCache
    clear(target: string): unknown
  }
  const apicache: ApiCache
  export default apicache
}

declare module 'express-redis-cache' {
  interface Options {
    readonly host: string
    readonly port: number
    readonly expire: number
  }
  type Emitter = import('node:events').EventEmitter
  interface ExpressRedisCache extends Emitter {
    route(): import('express').RequestHandler
    del(name: string, callback: (error: unknown) => void): void
  }
  const expressRedisCache: (options: Options) => ExpressRedisCache
  export default expressRedisCache
}

declare module 'koa-cash' {
  interface Options {
    readonly maxAge: number
    readonly get: (key: string) => Promise<object | undefined>
    readonly set: (key: string, value: object) => Promise<void>
  }
  const koaCash: (options: Options) => import('koa').Middleware
  export default koaCash
}

declare module 'express4' {
  export { default } from 'express'
}
