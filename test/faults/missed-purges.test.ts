// A purge whose message was lost with the connection for messages.

import { expect, it } from 'vitest'
import { appendPurge } from '../../packages/redis/src/protocol/scripts.generated.ts'
import { openBareStore } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()

it('waiters look up again only after a new subscription has read the missed purges', async () => {
  const heard: string[] = []
  const store = openBareStore(server.url, {
    onMark: ({ subject }) => void heard.push(subject),
    onGap: () => void heard.push('gap'),
  })
  await store.lookup('k', { token: 't', leaseMs: 0 })
  await store.mark('t=known', { soft: false })
  await expect.poll(() => heard).toContain('t=known')
  for (let i = 0; i < 5; i++) {
    heard.length = 0
    const keys = ['meta', 'log', 'marks'].map((part) => `t:4:{purges}:${part}`)
    const args = ['0-0', 'another channel', 10_000, 100_000, i + 1, `mht=missed ${i}`]
    const replies = await admin
      .multi()
      .eval(appendPurge.source, keys.length, ...keys, ...args)
      .call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      .exec()
    expect(replies?.map(([error]) => error)).toEqual([null, null])
    await expect.poll(() => heard).toContain('gap')
    expect(heard).toEqual([`t=missed ${i}`, 'gap'])
  }
  await store.close()
})
