// Cases with duplicates during the first run, and with clients, servers and Redis that die in it.
import type { ClientRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Got } from '../../lib/http.ts'
import { notTested, ok, tally, unless, type Verdict, wrong } from '../../lib/verdict.ts'
import {
  type Case,
  differenceOf,
  hasCrashed,
  inWords,
  isRefusal,
  kill,
  type Scene,
  signal,
} from '../scene.ts'

/** A single pair could pass by chance. */
const PAIRS = 20

async function pairs(scene: Scene): Promise<Verdict> {
  const verdicts: Verdict[] = []
  for (let round = 1; round <= PAIRS; round++) {
    verdicts.push(await together(scene, 2, `${scene.key}-${round}`))
  }
  const bad = verdicts.filter(({ kind }) => kind === 'fails')
  const [worst] = bad
  if (worst) return wrong(`${worst.seen} in ${bad.length} of ${PAIRS} rounds`)
  return verdicts[0] ?? ok()
}

async function together(scene: Scene, count: number, key = scene.key): Promise<Verdict> {
  const before = (await scene.runs()).length
  const sent = Array.from({ length: count }, () => scene.send('json', { keys: [key], holdMs: 150 }))
  const responses = await Promise.all(sent)
  const runs = (await scene.runs()).length - before
  const words = tally(responses.map(inWords))
  const first = responses.find(({ status }) => status === 201)
  if (!first) return wrong(`no request got a 201: ${words}`)
  const odd = responses.filter((each) => !isRefusal(each) && differenceOf(first, each) !== '')
  const facts = [
    [runs !== 1, `${runs} runs`],
    [runs === 1 && odd.length > 0, tally(odd.map(inWords))],
  ] as const
  return unless(facts, words)
}

async function abortedClient(scene: Scene): Promise<Verdict> {
  let outgoing: ClientRequest | undefined
  const onRequest = (request: ClientRequest) => {
    outgoing = request
  }
  const lost = scene.send('json', { gated: true, onRequest })
  const { id } = await scene.firstRun()
  outgoing?.destroy()
  await lost
  await sleep(100)
  await scene.server.process.call.go(scene.key)
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

/** Libraries without a lease get this time, too. */
const LEASE_MS = 1_500
const MARGIN_MS = 500

async function killed(scene: Scene): Promise<Verdict> {
  const lost = scene.send('json', { gated: true })
  await scene.firstRun()
  await kill(scene.server)
  await lost
  const [server] = await Promise.all([scene.another(), sleep(LEASE_MS + MARGIN_MS)])
  const again = await scene.send('json', { attempt: 2 }, server)
  const runs = (await scene.runs()).length
  if (again.status === 201 && runs === 2) return ok()
  const redis = new Redis(scene.redis.port)
  const ttls = await Promise.all((await redis.keys('*')).map((key) => redis.pttl(key)))
  redis.disconnect()
  const locked = Math.round(Math.max(0, ...ttls) / 1_000)
  return wrong(`retry got ${inWords(again)}; its record lives for another ${locked} s`)
}

async function lateFinisher(scene: Scene): Promise<Verdict> {
  if (!scene.peer.hasLease) return notTested('it has no lease, so there is no takeover')
  const other = await scene.another()
  const late = scene.send('json', { gated: true, timeoutMs: 15_000 })
  const first = await scene.firstRun()
  signal(scene.server, 'SIGSTOP')
  await sleep(LEASE_MS + MARGIN_MS)
  const winner = await scene.send('json', { attempt: 2 }, other)
  signal(scene.server, 'SIGCONT')
  await scene.server.process.call.go(scene.key)
  await late
  if (winner.status !== 201) return wrong(`no takeover: ${inWords(winner)}`)
  const third = await scene.retry('json', {}, other)
  const runs = (await scene.runs()).length
  if (runs !== 2) return wrong(`${runs} runs`)
  if (third.body.includes(first.id)) return wrong('the late attempt overwrote the newer result')
  const difference = differenceOf(winner, third)
  return difference === '' ? ok() : wrong(difference)
}

async function diesBeforeStore(scene: Scene): Promise<Verdict> {
  // Longer than the 5 s after which node-redis gives up a command.
  const sent = scene.send('json', { gated: true, timeoutMs: 8_000 })
  const { id } = await scene.firstRun()
  await scene.redis.kill()
  await scene.server.process.call.go(scene.key)
  const first = await sent
  await sleep(500)
  const crashed = hasCrashed(scene.server)
  await scene.redis.restart()
  const server = crashed ? await scene.another() : scene.server
  // Retries until the connections to the new Redis work, as a client would.
  let again: Got
  for (let tries = 1; ; tries++) {
    again = await scene.send('json', { timeoutMs: 2_000 }, server)
    if ((again.status > 0 && again.status < 500) || tries === 8) break
    await sleep(500)
  }
  const runs = (await scene.runs()).length
  const facts = [
    [first.status !== 201 || !first.body.includes(id), `the client got ${inWords(first)}`],
    [crashed, 'the server crashed'],
    [runs > 1, 'ran again'],
  ] as const
  return unless(facts, `retry: ${inWords(again)}`)
}

async function downAtBegin(scene: Scene): Promise<Verdict> {
  await scene.redis.kill()
  await sleep(300)
  const response = await scene.send('json', { timeoutMs: 2_000 })
  const ran = (await scene.runs()).length > 0
  const facts = [
    [response.status === 0, inWords(response)],
    [hasCrashed(scene.server), 'the server crashed'],
  ] as const
  return unless(facts, `${inWords(response)}${ran ? ', ran without protection' : ''}`)
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
