// Cases: a response that is shared while its body arrives (`collapse: 'stream'`), as clients see
// it.
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { createStampede, type Stampede } from '@stampede/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { CacheAdapter, CommonCacheOptions, Handler, Outside } from './adapter.ts'
import { get as head, untilClose } from './bench.ts'

interface Client {
  readonly text: string
  readonly bytes: number
  readonly headers: IncomingHttpHeaders | undefined
  readonly ended: Promise<'whole' | 'broken'>
  abort(): void
}

function open(port: number, headers: Record<string, string> = {}, reads = true): Client {
  let response: IncomingMessage | undefined
  let [text, bytes] = ['', 0]
  let end: (how: 'whole' | 'broken') => void = () => {}
  const ended = new Promise<'whole' | 'broken'>((resolve) => {
    end = resolve
  })
  const request = get({ port, host: '127.0.0.1', headers, agent: false }, (got) => {
    response = got
    got.on('error', () => end('broken')).on('end', () => end(got.complete ? 'whole' : 'broken'))
    if (!reads) return
    got.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes < 1_000) text += chunk.toString()
    })
  })
  request.on('error', () => end('broken'))
  return {
    get text() {
      return text
    },
    get bytes() {
      return bytes
    },
    get headers() {
      return response?.headers
    },
    ended,
    abort: () => request.destroy(),
  }
}

const BYTES = { 'content-type': 'text/plain' }
const seen = (poll: () => unknown) => expect.poll(poll, { interval: 5, timeout: 5_000 })
const fetched = (port: number) =>
  untilClose(`http://127.0.0.1:${port}/`, head('/', 'Connection: close'))
const cacheStatus = async (port: number) => String((await fetched(port)).headers['cache-status'])
const statusOf = (client: Client) => String(client.headers?.['cache-status'])

interface Scene {
  readonly stampede: Stampede
  readonly port: number
  readonly runs: PassThrough[]
  /** Starts a leader that has sent `text`, and followers that have received `text`. */
  lead(text?: string, followers?: number): Promise<{ leader: Client; followers: Client[] }>
}

/** A layer that sets a cookie when the head is written. */
const setsLateCookie: Outside = (res, next) => {
  const { writeHead } = res
  const own = (...args: unknown[]) => {
    res.setHeader('Set-Cookie', 'session=1')
    return Reflect.apply(writeHead, res, args)
  }
  Object.assign(res, { writeHead: own })
  return next()
}

type Way = 'a stream' | 'writes'

/** Starts an app that sends the source of each run in the given way. */
type Start = (
  options?: CommonCacheOptions,
  headers?: Record<string, string>,
  outside?: Outside,
) => Promise<Scene>

const sceneOf =
  (adapter: CacheAdapter, way: Way): Start =>
  (options = {}, headers = BYTES, outside = (_res, next) => next()) =>
    scene(adapter, way, options, headers, outside)

async function scene(
  adapter: CacheAdapter,
  way: Way,
  options: CommonCacheOptions,
  headers: Record<string, string>,
  outside: Outside,
): Promise<Scene> {
  const stampede = createStampede()
  const runs: PassThrough[] = []
  const handler: Handler = async (_seen, res) => {
    const source = new PassThrough()
    runs.push(source)
    if (way === 'a stream') return { body: source, headers }
    for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
    res.statusCode = 200
    try {
      for await (const chunk of source) res.write(chunk)
      res.end()
    } catch {
      res.destroy()
    }
    return undefined
  }
  const all = { stampede, ttlMs: 60_000, collapse: 'stream', ...options, key: () => 'k' } as const
  const server = await adapter.start(all, handler, outside)
  onTestFinished(async () => {
    for (const source of runs) source.destroy()
    await server[Symbol.asyncDispose]()
    await stampede.close()
  })
  const port = Number(new URL(server.url).port)
  const lead = async (text = 'one ', followers = 2) => {
    const before = runs.length
    const leader = open(port)
    await seen(() => runs.length).toBe(before + 1)
    runs[before]?.write(text)
    await seen(() => leader.text).toBe(text)
    const rest = Array.from({ length: followers }, () => open(port))
    for (const each of rest) await seen(() => each.text).toBe(text)
    expect(runs).toHaveLength(before + 1)
    return { leader, followers: rest }
  }
  return { stampede, port, runs, lead }
}

export function liveCases(adapter: CacheAdapter): void {
  describe('from a source stream', () => casesOf(adapter, sceneOf(adapter, 'a stream')))
  // If a handler writes to `res` itself, a framework that writes last no longer writes the
  // response.
  if (!adapter.writesLast)
    describe('from a handler that writes in pieces', () =>
      casesOf(adapter, sceneOf(adapter, 'writes')))
}

function casesOf(adapter: CacheAdapter, scene: Start): void {
  test('reaches followers before its end, with the same bytes for all', async () => {
    const { runs, lead, port } = await scene()
    const { leader, followers } = await lead()
    runs[0]?.end('two')
    const all = [leader, ...followers]
    for (const each of all) expect(await each.ended).toBe('whole')
    expect(all.map(({ text }) => text)).toEqual(['one two', 'one two', 'one two'])
    expect(followers.map(statusOf)).toEqual([
      expect.stringMatching(/; ttl=59|60; collapsed; detail=streamed$/),
      expect.stringMatching(/collapsed/),
    ])
    expect(followers[0]?.headers).toMatchObject({
      'content-type': expect.stringMatching(/^text.plain/),
      age: '0',
    })
    expect(await cacheStatus(port)).toMatch(/Stampede; hit/)
    expect(runs).toHaveLength(1)
  })

  test('is not slowed down by a client that does not read', async () => {
    const { runs, lead, port } = await scene({ maxBodyBytes: 8_000_000 })
    const { leader, followers } = await lead()
    open(port, {}, false)
    const size = 4_000_000
    runs[0]?.end(Buffer.alloc(size, 'x'))
    for (const each of [leader, ...followers]) {
      expect(await each.ended).toBe('whole')
      expect(each.bytes).toBe(size + 4)
    }
  })

  const outlives = test.skipIf(adapter.endsStreamOfLeaver)

  outlives('continues when its leader leaves', async () => {
    const { runs, lead, port } = await scene()
    const { leader, followers } = await lead()
    leader.abort()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const late = open(port)
    await seen(() => late.text).toBe('one ')
    runs[0]?.write('two ')
    for (const each of [...followers, late]) await seen(() => each.text).toBe('one two ')
    runs[0]?.end('three')
    for (const each of [...followers, late]) {
      expect(await each.ended).toBe('whole')
      expect(each.text).toBe('one two three')
    }
    await seen(async () => await cacheStatus(port)).toMatch(/Stampede; hit/)
    expect(runs).toHaveLength(1)
  })

  test('continues when a follower leaves', async () => {
    const { runs, lead } = await scene()
    const { leader, followers } = await lead()
    followers[0]?.abort()
    await new Promise((resolve) => setTimeout(resolve, 20))
    runs[0]?.end('two')
    expect(await leader.ended).toBe('whole')
    expect(await followers[1]?.ended).toBe('whole')
    expect(followers[1]?.text).toBe('one two')
  })

  test('breaks off for all followers if the source breaks, and the next request runs the handler', async () => {
    const { runs, lead, port } = await scene()
    const { leader, followers } = await lead()
    leader.ended.catch(() => {})
    runs[0]?.destroy()
    // Not every framework ends the response. In such a framework the client gives up.
    await new Promise((resolve) => setTimeout(resolve, 20))
    leader.abort()
    for (const each of followers) expect(await each.ended).toBe('broken')
    const next = open(port)
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('whole')
    expect(await next.ended).toBe('whole')
  })

  test('breaks off if the body is shorter than its Content-Length', async () => {
    const { runs, lead } = await scene({}, { ...BYTES, 'content-length': '100' })
    const { followers } = await lead()
    expect(followers[0]?.headers).toMatchObject({ 'content-length': '100' })
    runs[0]?.end('two')
    for (const each of followers) expect(await each.ended).toBe('broken')
  })

  test('continues for its followers if the body becomes too large to store', async () => {
    const { runs, lead, port } = await scene({ maxBodyBytes: 20_000 })
    const { leader, followers } = await lead()
    for (let n = 0; n < 10; n++) {
      runs[0]?.write(Buffer.alloc(5_000, 'x'))
      await seen(() => followers.every(({ bytes }) => bytes === 4 + 5_000 * (n + 1))).toBe(true)
    }
    const late = open(port)
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('own')
    runs[0]?.end('.')
    for (const each of [leader, ...followers]) {
      expect(await each.ended).toBe('whole')
      expect(each.bytes).toBe(50_005)
    }
    expect(await late.ended).toBe('whole')
    expect(late.text).toBe('own')
  })

  outlives(
    'continues for its followers when its leader leaves after it became too large',
    async () => {
      const { runs, lead } = await scene({ maxBodyBytes: 20_000 })
      const { leader, followers } = await lead()
      const bytes = () => followers.map((each) => each.bytes)
      for (let n = 1; n < 9; n++) {
        runs[0]?.write(Buffer.alloc(5_000, 'x'))
        await seen(bytes).toEqual([5_000 * n + 4, 5_000 * n + 4])
        if (n === 5) leader.abort()
        if (n === 5) await new Promise((resolve) => setTimeout(resolve, 30))
      }
      runs[0]?.end('.')
      for (const each of followers) expect(await each.ended).toBe('whole')
      expect(bytes()).toEqual([40_005, 40_005])
    },
  )

  test('is not shared if its head sets a cookie', async () => {
    const { runs, port } = await scene({}, BYTES, setsLateCookie)
    const leader = open(port)
    await seen(() => runs.length).toBe(1)
    const follower = open(port)
    await new Promise((resolve) => setTimeout(resolve, 30))
    runs[0]?.write('secret')
    await seen(() => leader.text).toBe('secret')
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('own')
    expect(await follower.ended).toBe('whole')
    expect(follower.text).toBe('own')
    runs[0]?.end()
  })

  test('is not sent to a request with other values of the Vary fields', async () => {
    const { runs, lead, port } = await scene({}, { ...BYTES, vary: 'accept-language' })
    await lead('english', 0)
    const german = open(port, { 'accept-language': 'de' })
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('deutsch')
    expect(await german.ended).toBe('whole')
    expect(german.text).toBe('deutsch')
    runs[0]?.end()
  })

  test('continues for earlier followers after a purge, while later requests run the handler', async () => {
    const { runs, lead, port, stampede } = await scene()
    const { followers } = await lead('old ')
    await stampede.purge({ key: 'k' })
    const after = open(port)
    await seen(() => runs.length).toBe(2)
    runs[0]?.end('rest')
    runs[1]?.end('new')
    expect(await followers[0]?.ended).toBe('whole')
    expect(followers[0]?.text).toBe('old rest')
    await after.ended
    expect(after.text).toBe('new')
    expect((await fetched(port)).body).toBe('new')
  })
}
