// Real middlewares before and after the cache, and what only one framework has.

import { describe } from 'vitest'
import { EXPRESS, expressOrders } from './middleware-orders/express.ts'
import { KOA, koaOrders } from './middleware-orders/koa.ts'

describe.each(EXPRESS)('on Express %s', expressOrders)
describe.each(KOA)('on Koa %s', koaOrders)
