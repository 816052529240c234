// Cases with duplicates during the first run, and with a client that leaves during it.

import type { ClientRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { ok, unless, type Verdict, wrong } from '../../verdicts/verdict.ts'
import type { ClientResponse } from '../request.ts'
import type { Scene } from '../scene.ts'
import { inWords, isRefusal } from '../words.ts'
import { type Case, differenceOf } from './case.ts'

/** A single pair could pass by chance. */
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
  const responses = await Promise.all(sent)
  const runs = (await scene.runs()).length - before
  const first = responses.find(({ status }) => status === 201)
  if (!first) return wrong(`no request got a 201: ${tally(responses)}`)
  const odd = responses.filter((each) => !isRefusal(each) && differenceOf(first, each, []) !== '')
  return unless(
    [
      [runs !== 1, `${runs} runs`],
      [runs === 1 && odd.length > 0, tally(odd)],
    ],
    tally(responses),
  )
}

function tally(responses: readonly ClientResponse[]): string {
  const counts = new Map<string, number>()
  for (const each of responses) counts.set(inWords(each), (counts.get(inWords(each)) ?? 0) + 1)
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
