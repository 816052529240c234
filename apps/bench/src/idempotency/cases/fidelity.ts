// Cases about the replay: equal status, bytes and representation fields, and no field of one
// client.

import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { unless, type Verdict, wrong } from '../../verdicts/verdict.ts'
import { BYTES, chunksOf, FILE, type Way } from '../orders.ts'
import type { Scene } from '../scene.ts'
import { inWords } from '../words.ts'
import { type Case, differenceOf, type Expected, judgeReplay } from './case.ts'

async function replay(scene: Scene, way: Way, expected: Expected): Promise<Verdict> {
  const first = await scene.send(way)
  return judgeReplay(scene, first, await scene.retry(way), expected)
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
  const difference = differenceOf(first, again, [])
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
  const same = differenceOf(first, again, []) === ''
  const refused = again.status >= 400 && again.status < 500
  return unless(
    [
      [runs > 1, 'ran again'],
      [runs === 1 && !same && !refused, `retry got ${inWords(again)} with another body`],
    ],
    same ? 'replayed' : inWords(again),
  )
}

export const fidelity: readonly Case[] = [
  {
    id: 'json',
    title: '201 with JSON and Location: replayed byte for byte, with Location',
    run: (scene) => replay(scene, 'json', { status: 201, headers: ['content-type', 'location'] }),
  },
  {
    id: 'empty',
    title: '201 without a body (Express: `end()`): replayed',
    run: (scene) => replay(scene, 'empty', { status: 201, body: Buffer.alloc(0) }),
  },
  {
    id: 'no-content',
    title: '204 (Express: `sendStatus`): replayed',
    run: (scene) => replay(scene, 'no-content', { status: 204, body: Buffer.alloc(0) }),
  },
  {
    id: 'binary',
    title: 'all 256 byte values: replayed byte for byte',
    run: (scene) => replay(scene, 'binary', { status: 200, body: BYTES }),
  },
  { id: 'stream', title: 'a stream as the body: replayed byte for byte', run: streamed },
  {
    id: 'redirect',
    title: '303 with Location: replayed',
    run: (scene) => replay(scene, 'redirect', { status: 303, headers: ['location'] }),
  },
  {
    id: 'file',
    title: 'a file as the body (Express: `sendFile`): replayed byte for byte',
    run: async (scene) => replay(scene, 'file', { status: 200, body: await readFile(FILE) }),
  },
  { id: 'cookie', title: 'Set-Cookie of the first response is not replayed', run: cookie },
  { id: 'date', title: 'a replay has its own Date', run: date },
  {
    id: 'too-large',
    title: 'a response of 3 MiB: complete for the first client, no second run',
    run: tooLarge,
  },
]
