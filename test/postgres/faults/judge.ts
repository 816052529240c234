// Judges orders by the responses of all clients and by the rows of the database.
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresServer } from '../../harness/postgres.ts'

export const TABLES = `
  create table orders (id bigserial primary key, key text not null);
  create table order_lines (order_id bigint not null);
  create table naive_keys (key text primary key, response jsonb, until timestamptz not null)`

/** A client's retries, which must succeed within this time. */
const PATIENCE_MS = 60_000

export interface Sent {
  /** How long the handler waits between its two writes. */
  readonly holdMs?: number
  readonly signal?: AbortSignal
}

interface Success {
  readonly status: number
  readonly body: string
  /** The order in the field `Location`, which a client has even if the body is cut off. */
  readonly id: string | undefined
}

export class Judge {
  /** Successes of each key, of all its clients. */
  readonly #successes = new Map<string, Success[]>()
  /** Orders that heads of responses named. */
  readonly #named: Array<{ readonly key: string; readonly id: string }> = []
  /** How often each status came. 0: no response. */
  readonly statuses = new Map<number, number>()

  get keys(): number {
    return this.#successes.size
  }

  /** Sends a POST and resolves with its status, 0 without a complete response. */
  async post(url: string, key: string, sent: Sent = {}): Promise<number> {
    const successes = this.#successes.get(key) ?? []
    this.#successes.set(key, successes)
    const seen = await send(url, key, sent)
    const { status, body, id } = seen
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
    if (id !== undefined) this.#named.push({ key, id })
    if (status >= 200 && status < 300 && body !== '') successes.push(seen)
    return body === '' ? 0 : status
  }

  /** Sends a POST until it succeeds. Each attempt goes to the worker that `url` names then. */
  async postUntilDone(url: () => string, key: string, sent: Sent = {}): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      const status = await this.post(url(), key, sent)
      if (status >= 200 && status < 300) return
      if (performance.now() > deadline) return
      // A client's pause, which no result depends on.
      await sleep(50)
    }
  }

  /** Broken promises, as sentences. */
  async violations(server: PostgresServer): Promise<string[]> {
    const rows = await server.query<{ key: string; id: string; lines: number }>(
      `select o.key, o.id::text, count(l.order_id)::int as lines
       from orders o left join order_lines l on l.order_id = o.id group by o.id order by o.id`,
    )
    const idsOf = new Map<string, string[]>()
    for (const { key, id } of rows) idsOf.set(key, [...(idsOf.get(key) ?? []), id])
    const halves = rows.filter(({ lines }) => lines !== 1)
    const found = halves.map(({ key, id, lines }) => `${key}: order ${id} has ${lines} lines`)
    for (const { key, id } of this.#named)
      if (!idsOf.get(key)?.includes(id)) found.push(`${key}: lost: order ${id} does not exist`)
    for (const [key, successes] of this.#successes)
      found.push(...violationsOf(idsOf.get(key) ?? [], successes).map((text) => `${key}: ${text}`))
    return found
  }
}

function violationsOf(ids: readonly string[], successes: readonly Success[]): string[] {
  const found: string[] = []
  if (ids.length > 1) found.push(`double: orders ${ids.join(', ')}`)
  if (successes.length === 0) found.push('stuck: no client got a success')
  if (new Set(successes.map(({ status, body }) => `${status} ${body}`)).size > 1)
    found.push(`unlike: ${successes.map(({ body }) => body).join(', ')}`)
  for (const { body, id } of successes)
    if (body !== JSON.stringify({ id })) found.push(`cut: ${body}`)
  return found
}

function send(url: string, key: string, { holdMs = 0, signal }: Sent): Promise<Success> {
  const body = JSON.stringify({ holdMs })
  const headers = { 'content-type': 'application/json', 'idempotency-key': key }
  return new Promise((resolve) => {
    const none = () => resolve({ status: 0, body: '', id: undefined })
    // No agent: after a worker was killed, no connection of it is left for the next one.
    const sent = request(`${url}/orders`, { method: 'POST', headers, agent: false, signal })
    sent.once('error', none)
    sent.once('response', (response) => {
      const { statusCode: status = 0, headers } = response
      const id = status === 201 ? headers.location?.replace('/orders/', '') : undefined
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.once('error', () => resolve({ status, body: '', id }))
      response.once('end', () => resolve({ status, body: Buffer.concat(chunks).toString(), id }))
    })
    sent.end(body)
  })
}
