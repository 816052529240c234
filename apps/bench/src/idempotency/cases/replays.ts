// Cases about the replay, about which requests are the same, and about a first run that fails.
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Got } from '../../lib/http.ts'
import { ok, unless, type Verdict, wrong } from '../../lib/verdict.ts'
import { BYTES, chunksOf, FILE, pathOf, type Way } from '../orders.ts'
import { type Case, differenceOf, inWords, isRefusal, type Scene, type Sent } from '../scene.ts'

interface Expected {
  readonly status: number
  readonly body?: Buffer
  /** Fields that must be equal in both responses. */
  readonly headers?: readonly string[]
}

/** The retry gets the first response without a run. */
async function judgeReplay(
  scene: Scene,
  first: Got,
  again: Got,
  { status, body, headers = ['content-type'] }: Expected,
): Promise<Verdict> {
  if (first.status !== status) return wrong(`first response: ${inWords(first)}`)
  if (body && !first.body.equals(body)) return wrong('first response: altered bytes')
  const runs = (await scene.runs()).length
  const difference = differenceOf(first, again, headers)
  return unless([
    [runs !== 1, 'ran again'],
    [runs === 1 && difference !== '', difference],
  ])
}

const replayed = (way: Way, status: number, more: Omit<Expected, 'status'> = {}) =>
  async function replay(scene: Scene): Promise<Verdict> {
    const first = await scene.send(way)
    return judgeReplay(scene, first, await scene.retry(way), { status, ...more })
  }

/** Two requests that differ only in this must be the same for the library. */
const same = (one: (key: string) => Sent, other: (key: string) => Sent) =>
  async function sameRequest(scene: Scene): Promise<Verdict> {
    const first = await scene.send('json', one(scene.key))
    const again = await scene.retry('json', other(scene.key))
    return judgeReplay(scene, first, again, { status: 201, headers: [] })
  }

async function streamed(scene: Scene): Promise<Verdict> {
  const first = await scene.send('stream')
  const [run] = await scene.runs()
  const body = Buffer.concat(chunksOf(run?.id ?? ''))
  return judgeReplay(scene, first, await scene.retry('stream'), { status: 200, body })
}

async function cookie(scene: Scene): Promise<Verdict> {
  const first = await scene.send('cookie')
  if (!first.headers['set-cookie']) return wrong('first response: without its cookie')
  const again = await scene.retry('cookie')
  const runs = (await scene.runs()).length
  const difference = differenceOf(first, again)
  return unless([
    [runs > 1, 'ran again'],
    [runs === 1 && again.headers['set-cookie'] !== undefined, 'cookie replayed'],
    [runs === 1 && difference !== '', difference],
  ])
}

async function date(scene: Scene): Promise<Verdict> {
  const first = await scene.send('json')
  await sleep(2_100)
  const again = await scene.retry('json')
  if ((await scene.runs()).length > 1) return wrong('ran again')
  if (again.status !== first.status) return wrong(`retry got ${inWords(again)}`)
  const ageMs = Date.now() - Date.parse(again.headers.date ?? '')
  return unless([[!(ageMs < 2_000), `Date is ${again.headers.date ? 'replayed' : 'lost'}`]])
}

async function tooLarge(scene: Scene): Promise<Verdict> {
  const first = await scene.send('large')
  if (first.status !== 200) return wrong(`first response: ${inWords(first)}`)
  const again = await scene.retry('large')
  const runs = (await scene.runs()).length
  const isSame = differenceOf(first, again) === ''
  const isOdd = runs === 1 && !isSame && !isRefusal(again)
  const facts = [
    [runs > 1, 'ran again'],
    [isOdd, `retry got ${inWords(again)} with another body`],
  ] as const
  return unless(facts, isSame ? 'replayed' : inWords(again))
}

const empty = { body: Buffer.alloc(0) }

export const fidelity: readonly Case[] = [
  {
    id: 'json',
    title: '201 with JSON and Location: replayed byte for byte, with Location',
    run: replayed('json', 201, { headers: ['content-type', 'location'] }),
  },
  {
    id: 'empty',
    title: '201 without a body (Express: `end()`): replayed',
    run: replayed('empty', 201, empty),
  },
  {
    id: 'no-content',
    title: '204 (Express: `sendStatus`): replayed',
    run: replayed('no-content', 204, empty),
  },
  {
    id: 'binary',
    title: 'all 256 byte values: replayed byte for byte',
    run: replayed('binary', 200, { body: BYTES }),
  },
  { id: 'stream', title: 'a stream as the body: replayed byte for byte', run: streamed },
  {
    id: 'redirect',
    title: '303 with Location: replayed',
    run: replayed('redirect', 303, { headers: ['location'] }),
  },
  {
    id: 'file',
    title: 'a file as the body (Express: `sendFile`): replayed byte for byte',
    run: async (scene) => replayed('file', 200, { body: await readFile(FILE) })(scene),
  },
  { id: 'cookie', title: 'Set-Cookie of the first response is not replayed', run: cookie },
  { id: 'date', title: 'a replay has its own Date', run: date },
  {
    id: 'too-large',
    title: 'a response of 3 MiB: complete for the first client, no second run',
    run: tooLarge,
  },
]

/** The second payload must get any 4xx. */
const refused = (one: string, other: string) =>
  async function otherPayload(scene: Scene): Promise<Verdict> {
    const first = await scene.send('json', { body: one })
    if (first.status !== 201) return wrong(`first response: ${inWords(first)}`)
    const again = await scene.retry('json', { body: other })
    const runs = (await scene.runs()).length
    if (isRefusal(again) && runs === 1) return ok(inWords(again))
    if (runs > 1) return wrong(`ran again: got ${inWords(again)}`)
    const isLeaked = again.status === 201
    return wrong(isLeaked ? 'got the response of the other payload' : `got ${inWords(again)}`)
  }

/** The second request must never get the response of the first. */
const apart = (leak: string, way: Way, user: string) =>
  async function otherIdentity(scene: Scene): Promise<Verdict> {
    const first = await scene.send('json')
    const other = await scene.retry(way, { user })
    const isLeaked = first.body.length > 0 && other.body.equals(first.body)
    return unless([[isLeaked, leak]], inWords(other))
  }

const BIG = '{"amount":9007199254740993}'

export const identity: readonly Case[] = [
  {
    id: 'other-payload',
    title: 'same key, other payload: refused',
    run: refused('{"amount":1}', '{"amount":2}'),
  },
  {
    id: 'big-integers',
    title: '9007199254740993 and 9007199254740992 are different payloads: refused',
    run: refused(BIG, BIG.replace('3}', '2}')),
  },
  {
    id: 'key-order',
    title: 'JSON members in another order: the same payload',
    run: same(
      () => ({ body: '{"amount":1,"unit":"EUR"}' }),
      () => ({ body: '{ "unit": "EUR", "amount": 1 }' }),
    ),
  },
  {
    id: 'other-user',
    title: "same key, other user: never gets the first user's response",
    run: apart("got the first user's response", 'json', 'bob'),
  },
  {
    id: 'other-route',
    title: "same key, other route: never gets the other route's response",
    run: apart(`${pathOf('other')} got the response of ${pathOf('json')}`, 'other', 'alice'),
  },
]

async function twoLines(scene: Scene): Promise<Verdict> {
  const response = await scene.send('json', { keys: [`${scene.key}-a`, `${scene.key}-b`] })
  return unless([[!isRefusal(response), `accepted: ${inWords(response)}`]], inWords(response))
}

async function malformed(scene: Scene): Promise<Verdict> {
  const open = await scene.send('json', { keys: [`"${scene.key}`] })
  const latin = await scene.send('json', { keys: [`"${scene.key}-\u00e9"`] })
  const facts = [
    [!isRefusal(open), `open quote accepted: ${inWords(open)}`],
    [!isRefusal(latin), `non-ASCII byte accepted: ${inWords(latin)}`],
  ] as const
  return unless(facts, `${inWords(open)}, ${inWords(latin)}`)
}

/** The header is a Structured Field string. Many clients send it without quotes. */
export const keys: readonly Case[] = [
  {
    id: 'quoted',
    title: '`"k"` and `k` are the same key',
    run: same(
      (key) => ({ keys: [`"${key}"`] }),
      (key) => ({ keys: [key] }),
    ),
  },
  { id: 'two-lines', title: 'two Idempotency-Key lines: refused', run: twoLines },
  {
    id: 'malformed',
    title: 'a key that is not a Structured Field string: refused',
    run: malformed,
  },
]

/** The key must not keep a failure. */
const retried = (id: string, what: string, way: Way, status: number): Case => ({
  id,
  title: `the handler ${what}: a retry runs it again`,
  async run(scene) {
    const first = await scene.send(way, { attempt: 1 })
    if (first.status !== status) return wrong(`first response: ${inWords(first)}`)
    const again = await scene.retry(way, { attempt: 2 })
    const runs = (await scene.runs()).length
    if (runs > 1) return again.status === 201 ? ok() : wrong(`retry got ${inWords(again)}`)
    return wrong(again.status === status ? `${status} replayed` : `locked: ${inWords(again)}`)
  },
})

export const failures: readonly Case[] = [
  retried('throws', 'throws (500)', 'throws', 500),
  retried('unavailable', 'responds with 503', 'unavailable', 503),
  retried('limited', 'responds with 429', 'limited', 429),
]
