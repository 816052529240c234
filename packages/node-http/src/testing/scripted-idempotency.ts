// For tests of the Koa adapter: a scripted core of idempotency keys, and a client that posts.

import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { Attempt } from '@stampede/core'
import type { IdempotentExchange } from '@stampede/core/adapter'
import type { RequestBody } from '../request/body.ts'
import type { AttemptObserver } from '../response/hold-end.ts'
import { deferred } from './deferred.ts'
import { startRequest } from './raw-client.ts'

type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]

export interface ScriptedCore<Native> {
  script(
    exchange: IdempotentExchange<Native>,
    attach: (attempt: Attempt) => void,
  ): void | Promise<void>
}

export interface Run {
  /** Calls to core, in order. */
  readonly ends: AttemptEnd[]
  readonly bodies: RequestBody[]
  /** Resolves with the first end. */
  readonly told: Promise<AttemptEnd>
  letGo(): void
}

/** Core reads the body and runs the app. An end is sent when the test releases it. */
export function runAll(
  core: ScriptedCore<never>,
  held: 'held' | 'at once' = 'at once',
  limits: Partial<Omit<AttemptObserver, 'onEnd'>> = {},
): Run {
  const ends: AttemptEnd[] = []
  const bodies: RequestBody[] = []
  const { promise: gate, resolve: letGo } = deferred()
  const { promise: told, resolve: tell } = deferred<AttemptEnd>()
  if (held === 'at once') letGo()
  core.script = async (exchange, attach) => {
    bodies.push(await exchange.readBody(100_000))
    attach({ number: 1 } as Attempt)
    await exchange.run({
      holdsAll: false,
      maxBodyBytes: 1_000_000,
      graceMs: 60_000,
      ...limits,
      onEnd(end) {
        ends.push(end)
        tell(end)
        return gate.then(() => undefined)
      },
    })
  }
  return { ends, bodies, told, letGo }
}

export function answerOf(end: AttemptEnd | undefined): { status: number; text: string } {
  if (end?.type !== 'complete') throw new Error(JSON.stringify(end))
  return { status: end.head.status, text: Buffer.from(end.body).toString('latin1') }
}

export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await turn()
}

interface Posted {
  readonly client: Socket
  received(): string
  /** Everything that arrived, once the server has closed the connection. */
  whole(): Promise<string>
}

export function post(port: number, body = '', fields: readonly string[] = []): Posted {
  const client = startRequest(port, [
    'POST / HTTP/1.1',
    'Host: a',
    'Connection: close',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...fields,
  ])
  client.write(body)
  let text = ''
  client.setEncoding('latin1').on('data', (data: string) => {
    text += data
  })
  const closed = once(client, 'close')
  return {
    client,
    received: () => text,
    async whole() {
      await closed
      return text
    },
  }
}
