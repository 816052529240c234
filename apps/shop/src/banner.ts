// Text for the terminal when the shop is open: its address, and four commands to try.

import { randomUUID } from 'node:crypto'
import { type Settings, withoutPassword } from './settings.ts'

export function banner(framework: string, settings: Settings, port: number): string {
  const { processes } = settings
  const at = `http://localhost:${port}`
  const store =
    settings.redisUrl === undefined
      ? 'in this process (set REDIS_URL to share it)'
      : `in ${withoutPassword(settings.redisUrl)} and in ${processes > 1 ? 'each' : 'this'} process`
  const shape = processes > 1 ? `${framework}, ${processes} processes behind a front` : framework
  const post = `curl -s ${at}/api/lab/stampede -H 'content-type: application/json' -d`
  // New for each start: Redis remembers the keys of an earlier shop, whose orders are gone with its
  // database.
  const key = `tea-${randomUUID().slice(0, 8)}`
  return `
The Quiet Cup is open:  ${at}

  ${shape}; cache ${store}; each query takes ${settings.originLatencyMs} ms

Four commands to try:

  1. Send this twice, and read Cache-Status: first a miss, then a hit
     curl -i ${at}/api/products/7

  2. Send 250 requests at once for a page that is not in the cache, with the cache and without it
     ${post} '{"requests":250,"path":"/api/products","cached":true}'
     ${post} '{"requests":250,"path":"/api/products","cached":false}'

  3. Change a price, and repeat command 1: the old price while it is fresh,
     then stale once in each process, then the new price
     (by default a change purges the page at once; this shop sets invalidateOn: 'never')
     curl -X PUT ${at}/api/products/7 -H 'content-type: application/json' -d '{"priceCents":1234}'

  4. Order a tin, and send the same again: the first response is replayed, and there is only one order
     (this shop also accepts orders without a key, to show the difference)
     curl -i ${at}/api/orders -H 'x-customer: ada' -H 'idempotency-key: ${key}' \\
       -H 'content-type: application/json' -d '{"productId":7,"quantity":1}'
     curl ${at}/api/orders -H 'x-customer: ada'

Stop with Ctrl-C.
`
}
