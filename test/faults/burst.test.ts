// Thousands of cold keys at once in one process: no command is late (more in test/older).

import { describe, it } from 'vitest'
import { burstOfFile, CLIENTS } from '../harness/burst.ts'

const { server, open, warmUp } = await burstOfFile()

describe.each(CLIENTS)('a warm-up by %s', (_, connect) => {
  it('stores the values of 8 000 cold keys, right after the start of the process', async () => {
    await warmUp(open(connect(server.url)), 8_000)
  })
})
