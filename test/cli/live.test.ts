// `stampede top` on a terminal, and the doctor on a server that freezes while the doctor works.

import { PassThrough } from 'node:stream'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { examine } from '../../packages/cli/src/doctor/examine.ts'
import { run } from '../../packages/cli/src/run.ts'
import { Terminal } from '../../packages/cli/src/terminal.ts'
import { openBareStore } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startRedis } from '../harness/redis-server.ts'

const { server } = await redisOfFile()

describe('top on a terminal', () => {
  let store: ReturnType<typeof openBareStore>
  beforeEach(() => {
    store = openBareStore(server.url)
  })
  afterEach(() => store.close())

  const report = (started: number) => {
    const routes = { '/': { runs: started } }
    const stats = { hits: { l1: started }, fills: { started }, routes }
    return store.operator.report(
      'a',
      JSON.stringify({ id: 'a', host: 'web', pid: 1, stats }),
      20_000,
    )
  }

  it('shows new reports with their rates, and leaves the screen as it was on q', async () => {
    await report(100)
    const stream = () => Object.assign(new PassThrough(), { isTTY: true, columns: 120 })
    const raw: boolean[] = []
    const stdin = Object.assign(stream(), { setRawMode: (isRaw: boolean) => raw.push(isRaw) })
    const stdout = stream()
    let shown = ''
    stdout.on('data', (text) => {
      shown += text
    })
    const env = { REDIS_URL: server.url, NO_COLOR: '1' }
    const ended = run(
      ['top', '--prefix', 't'],
      new Terminal({ stdin, stdout, stderr: stream(), env }),
    )
    await expect.poll(() => shown).toContain('web:1')
    await report(1_100)
    await expect.poll(() => shown).toMatch(/[1-9]\d* origin runs\/s/)
    stdin.write('q')
    expect(await ended).toBe(0)
    expect(raw).toEqual([true, false])
    expect(shown.startsWith('\x1b[?1049h')).toBe(true)
    expect(shown.endsWith('\x1b[?1049l')).toBe(true)
  })
})

describe('get --body on a terminal', () => {
  const outputOf = async (args: string[]): Promise<string> => {
    const stream = () => Object.assign(new PassThrough(), { isTTY: true })
    const stdout = stream()
    const env = { REDIS_URL: server.url }
    const streams = { stdin: stream(), stdout, stderr: stream(), env }
    expect(await run(args, new Terminal(streams))).toBe(0)
    return String(stdout.read())
  }

  it('ends with one newline, so that the prompt is on a line of its own', async () => {
    const options = { prefix: 't', commandTimeoutMs: 5_000 }
    const stampede = createStampede({ store: redisStore(new Redis(server.url), options) })
    try {
      await stampede.getOrSet('bare', () => Buffer.from('usd'), { ttlMs: 60_000 })
      await stampede.getOrSet('ended', () => Buffer.from('usd\n'), { ttlMs: 60_000 })
    } finally {
      await stampede.close()
    }
    for (const key of ['bare', 'ended']) {
      expect(await outputOf(['get', key, '--body', '--prefix', 't'])).toBe('usd\n')
    }
  })
})

describe('the doctor', () => {
  it('ends within the timeout if the server freezes while it works', async () => {
    await using freezing = await startRedis()
    const settings = { url: freezing.url, prefix: 't', timeoutMs: 1_500, encryptionKeys: [] }
    const startedAt = performance.now()
    const examined = examine(settings, ({ check }) => {
      if (check === 'connection') void freezing.pause()
    })
    await expect(examined).rejects.toMatchObject({ code: 'UNREACHABLE' })
    expect(performance.now() - startedAt).toBeLessThan(20_000)
  })
})
