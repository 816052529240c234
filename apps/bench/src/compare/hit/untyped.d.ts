// Types for packages without types: only the parts that the benchmark uses.

declare module 'apicache' {
  const apicache: { middleware(duration: string): import('express').RequestHandler }
  export default apicache
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
