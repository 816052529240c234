// What the terminal shows once the shop is open: its address, and four things to try.

import { randomUUID } from 'node:crypto'
import { type Settings, withoutPassword } from './settings.ts'

export function banner(framework: string, settings: Settings, port: number): string {
  const at = `http://localhost:${port}`
  const store =
    settings.redisUrl === undefined
      ? 'in this process (set REDIS_URL to share it)'
      : `in ${withoutPassword(settings.redisUrl)} and in this process`
  const post = `curl -s ${at}/api/lab/stampede -H 'content-type: application/json' -d`
  // A new one each time: Redis remembers the keys of the last shop, whose orders are gone with its database.
  const key = `tea-${randomUUID().slice(0, 8)}`
  return `
The Quiet Cup is open:  ${at}

  ${framework}; cache ${store}; every query takes ${settings.originLatencyMs} ms

Four things to try:

  1. Ask twice, and read Cache-Status: first a miss, then a hit
     curl -i ${at}/api/products/7

  2. Send 250 requests at once for something nobody has asked for yet, with the cache and without it
     ${post} '{"requests":250,"path":"/api/products","cached":true}'
     ${post} '{"requests":250,"path":"/api/products","cached":false}'

  3. Change a price, and ask again until the change shows: fresh, stale once, then new
     (by default a change shows at once; this shop leaves it to time, with invalidateOn: 'never')
     curl -X PUT ${at}/api/products/7 -H 'content-type: application/json' -d '{"priceCents":1234}'

  4. Order a tin, and send the same again: the first answer comes again, marked as replayed, and one order is kept
     (this shop also takes orders without a key, to show the difference)
     curl -i ${at}/api/orders -H 'x-customer: ada' -H 'idempotency-key: ${key}' \\
       -H 'content-type: application/json' -d '{"productId":7,"quantity":1}'
     curl ${at}/api/orders -H 'x-customer: ada'

Stop with Ctrl-C.
`
}
