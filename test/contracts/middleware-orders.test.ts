// Real middlewares before and after the cache, and features that only one framework has.

import { describe } from 'vitest'
import { EXPRESS, expressOrders } from './middleware-orders/express.ts'
import { KOA, koaOrders } from './middleware-orders/koa.ts'

describe.each(EXPRESS)('middlewares on Express %s', expressOrders)
describe.each(KOA)('middlewares on Koa %s', koaOrders)
