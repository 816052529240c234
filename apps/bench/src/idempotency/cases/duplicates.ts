// Duplicates that come while the first request is at work, and a client that leaves meanwhile.

import type { ClientRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '../request.ts'
import type { Scene } from '../scene.ts'
import { inWords, isRefusal, ok, unless, type Verdict, wrong } from '../verdict.ts'
import { type Case, differenceOf } from './case.ts'

/** One pair may be lucky. */
const PAIRS = 20

async function pairs(scene: Scene): Promise<Verdict> {
  const verdicts: Verdict[] = []
  for (let round = 1; round <= PAIRS; round++) {
    verdicts.push(await together(scene, 2, `${scene.key}-${round}`))
  }
  const bad = verdicts.filter(({ kind }) => kind === 'wrong')
  const [worst] = bad
  return worst?.kind === 'wrong'
    ? wrong(`${worst.fact} in ${bad.length} of ${PAIRS} rounds`)
    : (verdicts[0] ?? ok())
}

async function together(scene: Scene, count: number, key = scene.key): Promise<Verdict> {
  const before = (await scene.runs()).length
  const sent = Array.from({ length: count }, () => scene.send('json', { keys: [key], holdMs: 150 }))
  const answers = await Promise.all(sent)
  const runs = (await scene.runs()).length - before
  const first = answers.find(({ status }) => status === 201)
  if (!first) return wrong(`no request got a 201: ${tally(answers)}`)
  const odd = answers.filter((each) => !isRefusal(each) && differenceOf(first, each, []) !== '')
  return unless(
    [
      [runs !== 1, `${runs} runs`],
      [runs === 1 && odd.length > 0, tally(odd)],
    ],
    tally(answers),
  )
}

function tally(answers: readonly Answer[]): string {
  const counts = new Map<string, number>()
  for (const each of answers) counts.set(inWords(each), (counts.get(inWords(each)) ?? 0) + 1)
  return [...counts].map(([words, count]) => `${count} × ${words}`).join(', ')
}

async function abortedClient(scene: Scene): Promise<Verdict> {
  let outgoing: ClientRequest | undefined
  const lost = scene.send('json', {
    gated: true,
    onRequest: (request) => {
      outgoing = request
    },
  })
  const { id } = await scene.nthRun(1)
  outgoing?.destroy()
  await lost
  await sleep(100)
  scene.server.go(scene.key)
  await sleep(500)
  const again = await scene.retry('json')
  const runs = (await scene.runs()).length
  if (runs > 1) return wrong('ran again')
  if (again.status !== 201) return wrong(`retry got ${inWords(again)}`)
  return again.body.includes(id) ? ok() : wrong('retry got another response')
}

export const duplicates: readonly Case[] = [
  {
    id: 'two-at-once',
    title:
      '2 duplicates at once, 20 times: one run; the other request is refused or gets the same response',
    run: pairs,
  },
  {
    id: 'forty-at-once',
    title: '40 duplicates at once: one run',
    run: (scene) => together(scene, 40),
  },
  {
    id: 'client-aborts',
    title: 'the client aborts before the response and retries later: replayed, one run',
    run: abortedClient,
  },
]
