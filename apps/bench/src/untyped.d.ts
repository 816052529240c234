// Packages without types.
declare module 'apicache'
declare module 'express-redis-cache'
declare module 'koa-cash'
declare module 'redlock'
declare module 'express4' {
  export { default } from 'express'
}
