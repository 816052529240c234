import { expect, it } from 'vitest'
import { banner } from './banner.ts'

const settings = { port: 0, originLatencyMs: 300, redisUrl: undefined, processes: 1 }

it('the banner names the port, and an idempotency key that is new for each start', () => {
  const [one, other] = [banner('Koa', settings, 4321), banner('Koa', settings, 4321)]
  const keyIn = (text: string) => /idempotency-key: (tea-[0-9a-f]{8})'/.exec(text)?.[1]
  expect(one).toContain('http://localhost:4321/api/orders')
  expect(keyIn(one)).toBeDefined()
  expect(keyIn(one)).not.toBe(keyIn(other))
})

it('names Redis and the number of processes of a fleet', () => {
  const redisUrl = 'redis://:secret@127.0.0.1:7000'
  const text = banner('Koa', { ...settings, redisUrl, processes: 3 }, 4321)
  expect(text).toContain('Koa, 3 processes behind a front; cache in redis://127.0.0.1:7000')
})
