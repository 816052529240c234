// The attacks of other files, with QUERY in the place of GET. All requests have the same body.

import { METHODS } from 'node:http'
import { expect, it } from 'vitest'

it('a QUERY is sent by each of these attacks, if Node can parse it', () => {
  expect(process.env.STAMPEDE_ATTACK_METHOD).toBe('QUERY')
})

// Members of a fleet inherit it.
process.env.STAMPEDE_ATTACK_METHOD = 'QUERY'
if (METHODS.includes('QUERY')) {
  await import('../attacks/conditions-and-ranges.versions.test.ts')
  await import('../attacks/denial.versions.test.ts')
  await import('../attacks/hostile-input.versions.test.ts')
  await import('../attacks/keys.versions.test.ts')
  await import('../attacks/options.versions.test.ts')
  await import('../attacks/stored-for-others.versions.test.ts')
}
