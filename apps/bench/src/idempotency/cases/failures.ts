// Cases in which the first run fails. The key must not keep the failure.

import { unless, type Verdict, wrong } from '../../verdicts/verdict.ts'
import type { Way } from '../orders.ts'
import type { Scene } from '../scene.ts'
import { inWords } from '../words.ts'
import type { Case } from './case.ts'

async function retried(scene: Scene, way: Way, status: number): Promise<Verdict> {
  const first = await scene.send(way, { attempt: 1 })
  if (first.status !== status) return wrong(`first response: ${inWords(first)}`)
  const again = await scene.retry(way, { attempt: 2 })
  const runs = (await scene.runs()).length
  return unless([
    [runs === 1 && again.status === status, `${status} replayed`],
    [runs === 1 && again.status !== status, `locked: ${inWords(again)}`],
    [runs > 1 && again.status !== 201, `retry got ${inWords(again)}`],
  ])
}

export const failures: readonly Case[] = [
  {
    id: 'throws',
    title: 'the handler throws (500): a retry runs it again',
    run: (scene) => retried(scene, 'throws', 500),
  },
  {
    id: 'unavailable',
    title: 'the handler responds with 503: a retry runs it again',
    run: (scene) => retried(scene, 'unavailable', 503),
  },
  {
    id: 'limited',
    title: 'the handler responds with 429: a retry runs it again',
    run: (scene) => retried(scene, 'limited', 429),
  },
]
