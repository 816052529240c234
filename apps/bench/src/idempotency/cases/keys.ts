// Cases about the header, which is a Structured Field string. Many clients send it without quotes.

import { unless, type Verdict } from '../../verdicts/verdict.ts'
import type { Scene } from '../scene.ts'
import { inWords, isRefusal } from '../words.ts'
import { type Case, judgeReplay } from './case.ts'

async function quoted(scene: Scene): Promise<Verdict> {
  const first = await scene.send('json', { keys: [`"${scene.key}"`] })
  const again = await scene.retry('json', { keys: [scene.key] })
  return judgeReplay(scene, first, again, { status: 201, headers: [] })
}

async function twoLines(scene: Scene): Promise<Verdict> {
  const response = await scene.send('json', { keys: [`${scene.key}-a`, `${scene.key}-b`] })
  return unless([[!isRefusal(response), `accepted: ${inWords(response)}`]], inWords(response))
}

async function malformed(scene: Scene): Promise<Verdict> {
  const open = await scene.send('json', { keys: [`"${scene.key}`] })
  const latin = await scene.send('json', { keys: [`"${scene.key}-\u00e9"`] })
  return unless(
    [
      [!isRefusal(open), `open quote accepted: ${inWords(open)}`],
      [!isRefusal(latin), `non-ASCII byte accepted: ${inWords(latin)}`],
    ],
    `${inWords(open)}, ${inWords(latin)}`,
  )
}

export const keys: readonly Case[] = [
  { id: 'quoted', title: '`"k"` and `k` are the same key', run: quoted },
  { id: 'two-lines', title: 'two Idempotency-Key lines: refused', run: twoLines },
  {
    id: 'malformed',
    title: 'a key that is not a Structured Field string: refused',
    run: malformed,
  },
]
