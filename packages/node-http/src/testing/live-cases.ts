// For tests: what clients see of an answer that is shared as it comes, whatever framework carries it.

import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { type CacheOptions, createStampede, type Stampede } from '@stampede/core'
import { expect, onTestFinished, test } from 'vitest'
import { rawRequest, type TestServer } from './raw-client.ts'

/** A run of the app: what it sends is in the hands of the test. */
export interface LiveRun {
  readonly source: PassThrough
  readonly headers: Readonly<Record<string, string>>
}

/** Serves an app that answers with the source of a run, piped. With `lateCookie`, a layer outside adds one to the head. */
export type StartLive = (
  options: Omit<CacheOptions<never>, 'identity' | 'bypass' | 'key' | 'tags' | 'invalidateOn'> & {
    key: () => string
  },
  run: () => LiveRun,
  lateCookie: boolean,
) => Promise<TestServer>

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
const statusOf = (client: Client) => String(client.headers?.['cache-status'])

interface Scene {
  readonly stampede: Stampede
  readonly port: number
  readonly runs: PassThrough[]
  /** A leader that has sent `text`, and so many followers that have received it. */
  lead(text?: string, followers?: number): Promise<{ leader: Client; followers: Client[] }>
}

async function scene(
  start: StartLive,
  options: CacheOptions<never> = {},
  headers: Record<string, string> = BYTES,
  lateCookie = false,
): Promise<Scene> {
  const stampede = createStampede()
  const runs: PassThrough[] = []
  const run = (): LiveRun => {
    const source = new PassThrough()
    runs.push(source)
    return { source, headers }
  }
  const all = { stampede, ttlMs: 60_000, collapse: 'stream', ...options, key: () => 'k' } as const
  const server = await start(all, run, lateCookie)
  onTestFinished(async () => {
    for (const source of runs) source.destroy()
    await server[Symbol.asyncDispose]()
    await stampede.close()
  })
  const { port } = server
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

export function liveCases(start: StartLive): void {
  test('the first byte reaches those who wait before the last was made, and all get the same', async () => {
    const { runs, lead, port } = await scene(start)
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
    expect((await rawRequest(port)).head.join()).toMatch(/Stampede; hit/)
    expect(runs).toHaveLength(1)
  })

  test('one that does not read slows nobody down', async () => {
    const { runs, lead, port } = await scene(start, { maxBodyBytes: 8_000_000 })
    const { leader, followers } = await lead()
    open(port, {}, false)
    const size = 4_000_000
    runs[0]?.end(Buffer.alloc(size, 'x'))
    for (const each of [leader, ...followers]) {
      expect(await each.ended).toBe('whole')
      expect(each.bytes).toBe(size + 4)
    }
  })

  test('a leader who leaves takes nobody along', async () => {
    const { runs, lead, port } = await scene(start)
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
    await seen(async () => (await rawRequest(port)).head.join()).toMatch(/Stampede; hit/)
    expect(runs).toHaveLength(1)
  })

  test('a follower who leaves takes nobody along', async () => {
    const { runs, lead } = await scene(start)
    const { leader, followers } = await lead()
    followers[0]?.abort()
    await new Promise((resolve) => setTimeout(resolve, 20))
    runs[0]?.end('two')
    expect(await leader.ended).toBe('whole')
    expect(await followers[1]?.ended).toBe('whole')
    expect(followers[1]?.text).toBe('one two')
  })

  test('a source that breaks off is a broken transfer for everybody, and the next one runs', async () => {
    const { runs, lead, port } = await scene(start)
    const { leader, followers } = await lead()
    leader.ended.catch(() => {})
    runs[0]?.destroy()
    // Neither `pipe` nor Koa 2 end the leader's answer; its client gives up.
    await new Promise((resolve) => setTimeout(resolve, 20))
    leader.abort()
    for (const each of followers) expect(await each.ended).toBe('broken')
    const next = open(port)
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('whole')
    expect(await next.ended).toBe('whole')
  })

  test('fewer bytes than were declared are a broken transfer', async () => {
    const { runs, lead } = await scene(start, {}, { ...BYTES, 'content-length': '100' })
    const { followers } = await lead()
    expect(followers[0]?.headers).toMatchObject({ 'content-length': '100' })
    runs[0]?.end('two')
    for (const each of followers) expect(await each.ended).toBe('broken')
  })

  test('what becomes too large goes on for those who read it; those who come later run', async () => {
    const { runs, lead, port } = await scene(start, { maxBodyBytes: 20_000 })
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

  test('what has become too large goes on when its leader leaves', async () => {
    const { runs, lead } = await scene(start, { maxBodyBytes: 20_000 })
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
  })

  test('a cookie that is set with the head keeps the body from everybody else', async () => {
    const { runs, port } = await scene(start, {}, BYTES, true)
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

  test('one whom the answer does not fit runs its own', async () => {
    const { runs, lead, port } = await scene(start, {}, { ...BYTES, vary: 'accept-language' })
    await lead('english', 0)
    const german = open(port, { 'accept-language': 'de' })
    await seen(() => runs.length).toBe(2)
    runs[1]?.end('deutsch')
    expect(await german.ended).toBe('whole')
    expect(german.text).toBe('deutsch')
    runs[0]?.end()
  })

  test('after a purge, who asked before gets the rest, and who comes gets the new', async () => {
    const { runs, lead, port, stampede } = await scene(start)
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
    expect((await rawRequest(port)).body).toBe('new')
  })
}
