import { compare, HOSTILE_PIECES, runs } from '@stampede/core/testing'
import generate from 'cluster-key-slot'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { slotOf } from './cluster.ts'

const pieces = fc.constantFrom('{', '}', '{}', '{a}', 'user', ...HOSTILE_PIECES)
const keys = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(pieces, { maxLength: 8 }).map((all) => all.join('')),
)

/** As in https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags */
it('the slot of a key agrees with cluster-key-slot', () => {
  const { unexplained, unproven, agreed } = compare({
    inputs: fc.sample(keys, runs(10_000)),
    ours: slotOf,
    theirs: (key) => generate(key),
    differences: [
      {
        name: 'after an empty hash tag, a later brace ends none (Cluster specification, hash tags)',
        example: '{}a}',
        applies: (key) => /^[^{]*\{\}.*\}/s.test(key),
      },
      {
        name: 'a lone surrogate is U+FFFD, as the clients send it',
        example: '\ud800',
        applies: (key) => /\p{Surrogate}/u.test(key),
      },
    ],
  })
  expect(unexplained).toEqual([])
  expect(unproven).toEqual([])
  expect(agreed.size).toBeGreaterThan(1_000)
})
