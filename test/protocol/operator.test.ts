// The store operator on Redis: its commands, foreign keys beside its own, and missing permissions.

import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openBareStore, write } from '../harness/bare-store.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const REPORTS = { ends: 't:4:{reports}:ends', texts: 't:4:{reports}:texts' }

let store: ReturnType<typeof openBareStore>
beforeEach(async () => {
  await admin.flushall()
  store = openBareStore(server.url)
})
afterEach(() => store.close())

describe('a scan', () => {
  it('returns no key of a store whose prefix only matches as a pattern', async () => {
    await write(store, 'http:k', 'frame')
    const other = redisStore(new Redis(server.url, { lazyConnect: true }), {
      prefix: '[t]*',
      ...PATIENT,
    })
    const ignore = (): void => {}
    const hints = { onWake: ignore, onPurge: ignore, onMark: ignore, onForget: ignore }
    const clock = (await import('@stampede/core/store')).systemClock
    other.attach({ clock, ...hints, onGap: ignore, onLost: ignore, onError: ignore })
    expect(await other.operator.scan('cache', '', 100)).toEqual({ cursor: '', keys: [] })
    await write(other, 'http:other', 'frame')
    const { keys } = await other.operator.scan('cache', '', 100)
    expect(keys).toEqual(['http:other'])
    await other.close()
  })

  it('ignores keys of other programs under its prefix', async () => {
    await admin.set('t:4:{=no end', 'x')
    await admin.set('t:4:{=k}:no digest', 'x')
    await admin.set('t:4:other', 'x')
    expect((await store.operator.scan('cache', '', 100)).keys).toEqual([])
  })

  it('refuses a limit that is out of range', async () => {
    const scan = store.operator.scan('cache', '', 0)
    await expect(scan).rejects.toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
  })
})

describe('inspect', () => {
  it('ignores a value of another type, and malformed fields', async () => {
    await admin.set('t:4:{=http:text}', 'x')
    await admin.hset('t:4:{=http:odd}', {
      life: 'x',
      lease: 'f y t',
      last: '-',
    })
    await admin.set('t:4:{=l:text}', 'x')
    expect(await store.operator.inspect('http:text')).toBeUndefined()
    expect(await store.operator.inspect('http:odd')).toMatchObject({ key: 'http:odd', ageMs: 0 })
    expect(await store.operator.inspectLock('text')).toBeUndefined()
  })
})

describe('inspect after the clock was set back', () => {
  const FUTURE = 9_000_000_000_000

  it('shows neither a lease nor an entry from the future, as a lookup', async () => {
    await write(store, 'http:k', 'frame')
    const life = `1 ${FUTURE} ${FUTURE + 5_000} 0 0 0`
    const lease = `1 ${FUTURE + 5_000} ${FUTURE} t`
    await admin.hset('t:4:{=http:k}', { life, lease, last: `${FUTURE} ${FUTURE} 0 0 ` })
    const info = await store.operator.inspect('http:k')
    expect(info).not.toHaveProperty('frame')
    expect(info).not.toHaveProperty('lease')
    expect(info).not.toHaveProperty('passForMs')
  })

  it('shows a lock with its full lease, and with unknown age', async () => {
    const until = `${FUTURE + 5_000} ${FUTURE}`
    await admin.hset('t:4:{=l:door}', { token: 'holder', until, fence: `${FUTURE}000` })
    const info = await store.operator.inspectLock('door')
    expect(info).toMatchObject({ token: 'holder', remainingMs: 5_000, queue: 0 })
    expect(info).not.toHaveProperty('heldForMs')
  })
})

describe('reports', () => {
  it('cost one command each', async () => {
    await store.operator.report('one', 'text', 10_000)
    await store.operator.reports()
    const trace = await server.traceCommands()
    await store.operator.report('one', 'text', 10_000)
    await store.operator.reports()
    const sent = (await trace.stop()).filter(({ from }) => from === 'client')
    expect(sent.filter(({ name }) => name.startsWith('eval'))).toHaveLength(2)
  })

  it('start again if one of their keys was evicted', async () => {
    for (const lost of [REPORTS.ends, REPORTS.texts]) {
      await store.operator.report('one', 'text', 10_000)
      await admin.del(lost)
      expect(await store.operator.report('two', 'text', 10_000)).toBe(1)
      expect([...(await store.operator.reports()).keys()]).toEqual(['two'])
      expect(await admin.hkeys(REPORTS.texts)).toEqual(['two'])
    }
  })

  it('start again if the clock of the server was set back', async () => {
    await store.operator.report('one', 'text', 10_000)
    await admin.zadd(REPORTS.ends, Date.now() + 4_000_000, 'one')
    expect(await store.operator.report('two', 'text', 10_000)).toBe(1)
  })

  it('leave nothing in Redis when the processes are gone', async () => {
    await store.operator.report('one', 'text', 60)
    await expect.poll(() => admin.exists(REPORTS.ends, REPORTS.texts)).toBe(0)
  })

  it('leave out texts beyond 16 MiB', async () => {
    const text = 'x'.repeat(65_536)
    for (let i = 0; i < 260; i++) await store.operator.report(`p${i}`, text, 60_000)
    const patient = openBareStore(server.url, {}, 5_000)
    const reports = await patient.operator.reports()
    expect(reports.size).toBe(256)
    await patient.close()
  })
})

describe('a user without some permissions', () => {
  const as = async (rules: readonly string[]) => {
    await admin.call('ACL', 'SETUSER', 'op', 'reset', 'on', '>pw', '~*', '&*', '+@all', ...rules)
    const url = server.url.replace('redis://', 'redis://op:pw@')
    await store.close()
    store = openBareStore(url, {}, 1_000)
    return store.operator
  }

  it('gets an error that names the command', async () => {
    const operator = await as(['-scan'])
    await expect(operator.scan('cache', '', 10)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      cause: { message: expect.stringMatching(/NOPERM.*scan/i) },
    })
  })
})
