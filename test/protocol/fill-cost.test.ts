// The cost of a cold miss for Redis: the commands in its two scripts, and their arguments. Each
// command in a script takes Redis 4 to 6 µs.

import { expect, it } from 'vitest'
import { openBareStore, write } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()

it('fills a cold key with four commands and at most five arguments in each script', async () => {
  const store = openBareStore(server.url)
  // The scripts are loaded, and the purge log is read.
  await write(store, 'warm', 'frame')
  const trace = await server.traceCommands()
  await write(store, 'cold', 'frame')
  const sent = await trace.stop()
  await store.close()
  const inScripts = sent.filter(({ from }) => from === 'script').map(({ name }) => name)
  const lookup = ['time', 'hmget', 'hset', 'pexpire']
  expect(inScripts).toEqual([...lookup, 'time', 'hmget', 'hset', 'pexpire'])
  const scripts = sent.filter(({ name }) => name === 'evalsha')
  expect(scripts).toHaveLength(2)
  // A script is sent as: its name, its digest, the number of keys, one key, arguments.
  for (const { text } of scripts) {
    expect(text.match(/"(?:[^"\\]|\\.)*"/g)?.length).toBeLessThanOrEqual(4 + 5)
  }
})
