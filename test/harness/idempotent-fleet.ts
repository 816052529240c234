// A fleet of apps whose POSTs have idempotency keys, and the requests of its clients.
import { type AppFleet, type AppFleetOptions, startAppFleet } from './app-fleet.ts'
import { type Answer, ask } from './load.ts'

export interface IdempotentFleetOptions extends AppFleetOptions {
  /** Options of idempotency(), except `scope`, which is the header `x-user`. */
  readonly idempotency?: object
  /** The error of each member's clock. */
  readonly clocksMs?: readonly number[]
}

export interface Post {
  readonly key?: string
  readonly user?: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

export interface IdempotentFleet extends AppFleet {
  post(member: number, path: string, post?: Post): Promise<Answer>
}

export async function startIdempotentFleet(
  options: IdempotentFleetOptions = {},
): Promise<IdempotentFleet> {
  const { idempotency = {}, clocksMs = [], ...rest } = options
  const entry = new URL('./servers/idempotent-app.mjs', import.meta.url)
  const env = { IDEMPOTENCY: JSON.stringify(idempotency), CLOCKS_MS: JSON.stringify(clocksMs) }
  const fleet = await startAppFleet(entry, { size: 2, ...rest }, env)
  return {
    ...fleet,
    post(member, path, { key = 'k', user = 'ada', body = { amount: 1 }, headers = {} } = {}) {
      return ask(fleet.member(member).url + path, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'idempotency-key': key,
          'x-user': user,
          ...headers,
        },
        body: JSON.stringify(body),
      })
    },
  }
}
