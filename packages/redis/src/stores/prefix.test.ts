// The prefix of redisStore: with each one that is accepted, the keys of one command are in one slot
// of a Cluster.

import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { slotOf } from '../connection/cluster.ts'
import { names } from '../protocol/keys.ts'
import { redisStore } from './redis-store.ts'

const PIECES = ['', '{', '}', '{}', '{a}', 'shop', ':']
const PREFIXES = PIECES.flatMap((a) => PIECES.flatMap((b) => PIECES.map((c) => a + b + c)))
const ALL = [...new Set(PREFIXES)].filter((prefix) => prefix !== '')

/** Whether each command of a store with this prefix works in a Cluster. */
function staysInSlots(prefix: string): boolean {
  const { record, purges, reports } = names(prefix)
  const groups = ['/', 'x}y', '{}', 'a'.repeat(300)].map((key) => [
    record(key),
    record(`${key}\0v`),
  ])
  return [...groups, purges, reports].every((keys) => new Set(keys.map(slotOf)).size === 1)
}

/** The message of the error at creation, if any. */
function refusal(prefix: string, keyPrefix = ''): string | undefined {
  const client = new Redis({ lazyConnect: true, keyPrefix })
  try {
    redisStore(client, { prefix })
    return undefined
  } catch (error) {
    return (error as Error).message
  } finally {
    client.disconnect()
  }
}

it('refuses each prefix that would put the keys of one command into several slots', () => {
  const accepted = ALL.filter((prefix) => refusal(prefix) === undefined)
  expect(accepted).toEqual(ALL.filter(staysInSlots))
  expect(accepted.length).toBeGreaterThan(ALL.length / 2)
  expect(refusal('{}shop')).toBe(
    'redisStore.prefix: received "{}shop"; use a prefix without {}, which fails in a Redis Cluster; {name} is allowed',
  )
})

it.each([
  ['{}', 'shop', true],
  ['a{', '}shop', true],
  ['app:', '{}', true],
  ['{app}', '{}', false],
  ['app:', '{shop}', false],
])('takes the keyPrefix %s into account for the prefix %s', (keyPrefix, prefix, isRefused) => {
  expect(refusal(prefix, keyPrefix) !== undefined).toBe(isRefused)
  expect(staysInSlots(keyPrefix + prefix)).toBe(!isRefused)
})
