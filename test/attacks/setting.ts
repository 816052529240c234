// Test harness for attacks. Each case runs on every framework, with the memory store in one process
// and with Redis in two. With Redis, the attacker talks to one process and the victim to the other.
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { createStampede } from '@stampede/core'
import { afterAll, beforeAll, describe } from 'vitest'
import { assertCleanExit, type Fleet, startFleet } from '../harness/fleet.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { ofThisRun } from '../harness/versions.ts'
import { waitUntil } from '../harness/wait-until.ts'
import { FRAMEWORKS, listenerOf } from './apps.mjs'
import { runs, targetOf } from './targets.mjs'

export interface Attacked extends AsyncDisposable {
  /** URL for the attacker's requests. */
  readonly attacker: string
  /** URL for the victim's requests. It is that of another process, if there are two. */
  readonly victim: string
  /** How often the handler has run since this target was opened. */
  runs(): Promise<number>
  /** Resolves when no fill is under way. A client may have its response before the store has it. */
  stored(): Promise<void>
}

export interface Setting {
  readonly framework: (typeof FRAMEWORKS)[number]
  readonly isKoa: boolean
  /** Opens a fresh cache and the target of this name in targets.mjs. */
  open(target: string): Promise<Attacked>
}

type Place = readonly [(typeof FRAMEWORKS)[number], 'in memory' | 'in Redis, two processes']

/** The settings of this run: each kind of framework, and each kind of store. */
const CURRENT: readonly Place[] = [
  ['express', 'in memory'],
  ['express', 'in Redis, two processes'],
  ['koa', 'in memory'],
  ['node', 'in memory'],
]
const ALL = FRAMEWORKS.flatMap((framework): Place[] => [
  [framework, 'in memory'],
  [framework, 'in Redis, two processes'],
])
const OTHERS = ALL.filter((place) => !CURRENT.some((each) => `${each}` === `${place}`))

/** Declares `cases` once for each framework and store. */
export function describeAttacks(title: string, cases: (setting: Setting) => void): void {
  afterAll(stopFleetOfFile)
  describe.each([...ofThisRun(CURRENT, OTHERS)])(`${title}: %s %s`, (framework, store) => {
    const isKoa = framework.startsWith('koa')
    if (store === 'in memory') {
      return cases({ framework, isKoa, open: (name) => inMemory(framework, name) })
    }
    let fleet: Fleet
    beforeAll(async () => {
      fleet = await fleetOfFile()
    })
    cases({ framework, isKoa, open: (name) => inRedis(fleet, framework, name) })
  })
}

let running: Promise<{ fleet: Fleet; redis: RedisServer }> | undefined

/** One Redis and two processes for all cases of a file: starting them costs more than the cases. */
async function fleetOfFile(): Promise<Fleet> {
  running ??= startRedis().then(async (redis) => {
    const entry = new URL('./member.mjs', import.meta.url)
    return { fleet: await startFleet({ size: 2, entry, env: { REDIS_URL: redis.url } }), redis }
  })
  return (await running).fleet
}

async function stopFleetOfFile(): Promise<void> {
  if (running === undefined) return
  const { fleet, redis } = await running
  // Another file of this process starts its own.
  running = undefined
  await Promise.all(fleet.members.map((member) => assertCleanExit(member)))
  await redis.stop()
}

async function inMemory(framework: string, name: string): Promise<Attacked> {
  const stampede = createStampede()
  const before = runs.get(name) ?? 0
  const server = createServer(listenerOf(framework, targetOf(name), stampede))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    attacker: url,
    victim: url,
    runs: async () => (runs.get(name) ?? 0) - before,
    stored: () => waitUntil('fills ended', () => stampede.stats().active.flights === 0),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await stampede.close()
    },
  }
}

let opened = 0

async function inRedis({ members }: Fleet, framework: string, target: string): Promise<Attacked> {
  const prefix = `attack-${++opened}`
  const count = async (): Promise<number> => {
    const each = members.map((member) => member.ask<number>({ type: 'runs', target }))
    return (await Promise.all(each)).reduce((sum, n) => sum + n, 0)
  }
  const before = await count()
  const ports = await Promise.all(
    members.map((member) => member.ask<AddressInfo>({ type: 'open', framework, target, prefix })),
  )
  const [attacker = '', victim = ''] = ports.map(({ port }) => `http://127.0.0.1:${port}`)
  return {
    attacker,
    victim,
    runs: async () => (await count()) - before,
    stored: () =>
      waitUntil('fills ended', async () => {
        const each = members.map((member) => member.ask<number>({ type: 'fills', prefix }))
        return (await Promise.all(each)).every((fills) => fills === 0)
      }),
    async [Symbol.asyncDispose]() {
      await Promise.all(members.map((member) => member.ask({ type: 'close', prefix })))
    },
  }
}

export interface RawResponse {
  readonly status: number
  /** Names in lower case; lines of one name joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** `query.test.ts` runs the same cases with QUERY. Then each request has this body. */
export const METHOD: string = process.env.STAMPEDE_ATTACK_METHOD ?? 'GET'
export const METHODS: ReadonlyArray<'GET' | 'QUERY'> =
  METHOD === 'QUERY' ? ['GET', 'QUERY'] : ['GET']
export const BODY: string = METHOD === 'QUERY' ? '{}' : ''
export const BODY_FIELDS: Readonly<Record<string, string>> =
  METHOD === 'QUERY' ? { 'Content-Type': 'application/json', 'Content-Length': '2' } : {}
const BODY_LINES = Object.entries(BODY_FIELDS).map(([name, value]) => `${name}: ${value}`)

/**
 * Sends a GET with exactly these header lines on its own connection. Adds `Host: shop.test` if they
 * have no Host.
 */
export function get(url: string, path: string, ...lines: readonly string[]): Promise<RawResponse> {
  const host = lines.some((line) => /^host:/i.test(line)) ? [] : ['Host: shop.test']
  const head = [`${METHOD} ${path} HTTP/1.1`, ...host, ...lines, ...BODY_LINES]
  return raw(url, [...head, 'Connection: close', '', BODY])
}

/** The bytes of a GET, with `METHOD` and its body. Others are returned unchanged. */
export function withMethod(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1')
  const end = '\r\nConnection: close\r\n\r\n'
  if (METHOD === 'GET' || !text.startsWith('GET ')) return bytes
  const whole = text.endsWith(end) ? `${text.slice(0, -end.length)}\r\n` : undefined
  const rest = whole && `${whole}${BODY_LINES.join('\r\n')}${end}${BODY}`
  return Buffer.from((rest ?? text).replace('GET', METHOD), 'latin1')
}

/** Writes `lines` as they are, and reads until the server closes the connection. */
export function raw(url: string, lines: readonly string[]): Promise<RawResponse> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const chunks: Buffer[] = []
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.on('data', (chunk) => void chunks.push(chunk))
    socket.on('close', () => resolve(read(Buffer.concat(chunks))))
    socket.write(lines.join('\r\n'), 'latin1')
  })
}

function read(bytes: Buffer): RawResponse {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) throw new Error(`No head in ${JSON.stringify(bytes.toString('latin1'))}`)
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  const rest = bytes.subarray(end + 4)
  const isChunked = headers['transfer-encoding'] === 'chunked'
  const body = isChunked ? unchunked(rest) : rest
  return { status: Number(statusLine.split(' ')[1]), headers, body: body.toString() }
}

function unchunked(bytes: Buffer): Buffer {
  const chunks: Buffer[] = []
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (lineEnd === -1 || Number.isNaN(size)) throw new Error('The chunked body is cut short')
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
}
