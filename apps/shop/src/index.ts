// The parts of the shop that both apps use.

export { connectRedis } from './connect-redis.ts'
export { readCustomer } from './customer.ts'
export { openDatabase } from './database.ts'
export { type About, createLab, type Lab } from './lab.ts'
export { launch } from './launch.ts'
export type { OrderHandlers } from './order-handlers.ts'
export { type Pages, readPages } from './pages.ts'
export type { ProductHandlers } from './product-handlers.ts'
export { noSuchPage, respondToError, type ShopResponse } from './response.ts'
export type { OnStop, Start, Surroundings, Watched } from './run.ts'
export type { Settings } from './settings.ts'
export { createShop, openShop, type Shop } from './shop.ts'
