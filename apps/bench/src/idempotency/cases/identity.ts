// Cases about identity: two requests are the same if key, user, route and payload are the same.

import { ok, unless, type Verdict, wrong } from '../../verdicts/verdict.ts'
import { pathOf } from '../orders.ts'
import type { Scene } from '../scene.ts'
import { inWords, isRefusal } from '../words.ts'
import { type Case, judgeReplay } from './case.ts'

/** The second payload must get any 4xx. */
async function refused(scene: Scene, one: string, other: string): Promise<Verdict> {
  const first = await scene.send('json', { body: one })
  if (first.status !== 201) return wrong(`first response: ${inWords(first)}`)
  const again = await scene.retry('json', { body: other })
  const runs = (await scene.runs()).length
  if (isRefusal(again) && runs === 1) return ok(inWords(again))
  return unless([
    [runs > 1, `ran again: got ${inWords(again)}`],
    [runs === 1 && again.status === 201, 'got the response of the other payload'],
    [runs === 1 && again.status !== 201, `got ${inWords(again)}`],
  ])
}

async function otherUser(scene: Scene): Promise<Verdict> {
  const first = await scene.send('json', { user: 'alice' })
  const other = await scene.retry('json', { user: 'bob' })
  const leaked = first.body.length > 0 && other.body.equals(first.body)
  return unless([[leaked, "got the first user's response"]], inWords(other))
}

async function otherRoute(scene: Scene): Promise<Verdict> {
  const first = await scene.send('json')
  const other = await scene.retry('other')
  const leaked = other.body.equals(first.body)
  return unless(
    [[leaked, `${pathOf('other')} got the response of ${pathOf('json')}`]],
    inWords(other),
  )
}

async function keyOrder(scene: Scene): Promise<Verdict> {
  const first = await scene.send('json', { body: '{"amount":1,"unit":"EUR"}' })
  const again = await scene.retry('json', { body: '{ "unit": "EUR", "amount": 1 }' })
  return judgeReplay(scene, first, again, { status: 201, headers: [] })
}

export const identity: readonly Case[] = [
  {
    id: 'other-payload',
    title: 'same key, other payload: refused',
    run: (scene) => refused(scene, '{"amount":1}', '{"amount":2}'),
  },
  {
    id: 'big-integers',
    title: '9007199254740993 and 9007199254740992 are different payloads: refused',
    run: (scene) => refused(scene, '{"amount":9007199254740993}', '{"amount":9007199254740992}'),
  },
  { id: 'key-order', title: 'JSON members in another order: the same payload', run: keyOrder },
  {
    id: 'other-user',
    title: "same key, other user: never gets the first user's response",
    run: otherUser,
  },
  {
    id: 'other-route',
    title: "same key, other route: never gets the other route's response",
    run: otherRoute,
  },
]
