// Thousands of cold keys at once in one process: no command is late (more in test/older).

import { describe, it, onTestFinished } from 'vitest'
import { burstOfFile, CLIENTS } from '../harness/burst.ts'
import { startProxy } from '../harness/tcp-proxy.ts'

const { server, open, warmUp } = await burstOfFile()

/** The connection takes twice as long for all lookups, and a quarter for those in flight. */
const BUDGET_MS = 1_000
const BYTES_PER_MS = 345

describe.each(CLIENTS)('a warm-up by %s', (_, connect) => {
  it('stores the values of 3 000 cold keys, right after the start of the process', async () => {
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.stop())
    proxy.throttle(BYTES_PER_MS)
    await warmUp(open(connect(proxy.url), BUDGET_MS), 3_000)
  })
})
