// Cases in which Redis dies before a result is stored, or before a request comes.
import { setTimeout as sleep } from 'node:timers/promises'
import { unless, type Verdict } from '../../verdicts/verdict.ts'
import type { ClientResponse } from '../request.ts'
import type { Scene } from '../scene.ts'
import { inWords } from '../words.ts'
import type { Case } from './case.ts'

async function diesBeforeStore(scene: Scene): Promise<Verdict> {
  // Longer than the 5 s after which node-redis gives up a command.
  const sent = scene.send('json', { gated: true, timeoutMs: 8_000 })
  const { id } = await scene.nthRun(1)
  await scene.redis.kill()
  scene.server.go(scene.key)
  const first = await sent
  await sleep(500)
  const { crashed } = scene.server
  await scene.redis.restart()
  const server = crashed ? await scene.another() : scene.server
  const again = await untilServed(() => scene.send('json', { timeoutMs: 2_000 }, server))
  const runs = (await scene.runs()).length
  const real = first.status === 201 && first.body.includes(id)
  return unless(
    [
      [!real, `the client got ${inWords(first)}`],
      [crashed, 'the server crashed'],
      [runs > 1, 'ran again'],
    ],
    `retry: ${inWords(again)}`,
  )
}

/** Retries until the connections to the new Redis work, as a client would. */
async function untilServed(send: () => Promise<ClientResponse>): Promise<ClientResponse> {
  for (let tries = 1; ; tries++) {
    const response = await send()
    if ((response.status > 0 && response.status < 500) || tries === 8) return response
    await sleep(500)
  }
}

async function downAtBegin(scene: Scene): Promise<Verdict> {
  await scene.redis.kill()
  await sleep(300)
  const response = await scene.send('json', { timeoutMs: 2_000 })
  const ran = (await scene.runs()).length > 0
  const { crashed } = scene.server
  return unless(
    [
      [response.status === 0, inWords(response)],
      [crashed, 'the server crashed'],
    ],
    ran ? `${inWords(response)}, ran without protection` : inWords(response),
  )
}

export const outages: readonly Case[] = [
  {
    id: 'redis-dies-before-store',
    title:
      'Redis dies between the handler and the store: the client gets the response, no second run',
    timeoutMs: 40_000,
    run: diesBeforeStore,
  },
  {
    id: 'redis-down-at-begin',
    title: 'Redis is down when a request comes: a response within 2 s',
    run: downAtBegin,
  },
]
