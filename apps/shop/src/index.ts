// What the two apps use of the shop.

export { type Answer, answerError, noSuchPage } from './answer.ts'
export { connectRedis } from './connect-redis.ts'
export { readCustomer } from './customer.ts'
export { openDatabase } from './database.ts'
export { type About, createLab, type Lab } from './lab.ts'
export { launch, type OnStop } from './launch.ts'
export type { OrderHandlers } from './order-handlers.ts'
export { type Pages, readPages } from './pages.ts'
export type { Settings } from './settings.ts'
export { createShop, openShop, type ProductHandlers, type Shop } from './shop.ts'
