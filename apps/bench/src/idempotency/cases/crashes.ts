// Cases in which a process dies or freezes while it handles a request with a key.
import { setTimeout as sleep } from 'node:timers/promises'
import { notSupported, ok, type Verdict, wrong } from '../../verdicts/verdict.ts'
import type { Scene } from '../scene.ts'
import { inWords } from '../words.ts'
import { type Case, differenceOf } from './case.ts'

/** Libraries without a lease get this time, too. */
const LEASE_MS = 1_500
const MARGIN_MS = 500

async function killed(scene: Scene): Promise<Verdict> {
  const lost = scene.send('json', { gated: true })
  await scene.nthRun(1)
  await scene.server.kill()
  await lost
  const [server] = await Promise.all([scene.another(), sleep(LEASE_MS + MARGIN_MS)])
  const again = await scene.send('json', { attempt: 2 }, server)
  const runs = (await scene.runs()).length
  if (again.status === 201 && runs === 2) return ok()
  const locked = Math.round((await scene.redis.longestTtlMs()) / 1_000)
  return wrong(`retry got ${inWords(again)}; its record lives for another ${locked} s`)
}

async function lateFinisher(scene: Scene): Promise<Verdict> {
  if (scene.peer.leaseMs === undefined)
    return notSupported('it has no lease, so there is no takeover')
  const other = await scene.another()
  const late = scene.send('json', { gated: true, timeoutMs: 15_000 })
  const first = await scene.nthRun(1)
  scene.server.freeze()
  await sleep(LEASE_MS + MARGIN_MS)
  const winner = await scene.send('json', { attempt: 2 }, other)
  scene.server.thaw()
  scene.server.go(scene.key)
  await late
  if (winner.status !== 201) return wrong(`no takeover: ${inWords(winner)}`)
  const third = await scene.retry('json', {}, other)
  const runs = (await scene.runs()).length
  if (runs !== 2) return wrong(`${runs} runs`)
  if (third.body.includes(first.id)) return wrong('the late attempt overwrote the newer result')
  const difference = differenceOf(winner, third, [])
  return difference === '' ? ok() : wrong(difference)
}

export const crashes: readonly Case[] = [
  {
    id: 'killed',
    title:
      'the server is killed in the handler: a retry runs it again within lease (1.5 s) + 0.5 s',
    run: killed,
  },
  {
    id: 'late-finisher',
    title: 'a server that was frozen past its lease cannot overwrite the result of the takeover',
    run: lateFinisher,
  },
]
