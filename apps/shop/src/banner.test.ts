import { expect, it } from 'vitest'
import { banner } from './banner.ts'

const settings = { port: 0, originLatencyMs: 300, redisUrl: undefined }

it('the banner names the port, and an idempotency key that is new for each start', () => {
  const [one, other] = [banner('Koa', settings, 4321), banner('Koa', settings, 4321)]
  const keyIn = (text: string) => /idempotency-key: (tea-[0-9a-f]{8})'/.exec(text)?.[1]
  expect(one).toContain('http://localhost:4321/api/orders')
  expect(keyIn(one)).toBeDefined()
  expect(keyIn(one)).not.toBe(keyIn(other))
})
