import { createClient } from 'redis'
import { expect, it, vi } from 'vitest'
import { requireClient } from '../connection/known-clients.ts'
import { connect } from '../connection/open-client.ts'

vi.mock('node:module', () => ({
  createRequire: () => () => {
    throw new Error("Cannot find module 'ioredis'")
  },
}))

it('names the fix if ioredis cannot be loaded for a node-redis client', () => {
  const client = requireClient(createClient())
  expect(() => connect(client, 250)).toThrow(
    expect.objectContaining({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringMatching(
        /run npm install ioredis, and keep both ioredis and @stampede\/redis out of a bundle/,
      ),
      cause: expect.objectContaining({ message: "Cannot find module 'ioredis'" }),
    }),
  )
})
