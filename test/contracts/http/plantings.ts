// Planted records: what a broken or hostile writer might leave in Redis in place of a stored
// response.

import { forgeFrame, keyDigest, turnBit, withChecksum } from '@stampede/core/testing'

export interface Plantings {
  /** Planted fields, by name. `undefined` stands for a value that is not a hash. */
  readonly broken: Readonly<Record<string, Buffer | undefined>>
  /** A valid entry with `x-planted: fine`. It is served, which shows that the planting works. */
  readonly wellFormed: Buffer
}

/**
 * `frame` is a stored frame. The planted frames name the same key, and their checksums are right.
 */
export function plantings(frame: Buffer): Plantings {
  if (frame.subarray(0, 1).toString() !== 'S') throw new Error('This is no frame')
  const digest = frame.subarray(16, 24)
  const withHead = (head: object) => forgeFrame(JSON.stringify(head), { body: 'planted', digest })
  const head = (value: string, name = 'x-planted') => ({
    // A position after every purge.
    p: Number.MAX_SAFE_INTEGER,
    d: 0,
    t: [],
    s: 200,
    h: [[name, value]],
    a: 0,
    v: [],
  })
  return {
    broken: {
      'another type': undefined,
      truncated: frame.subarray(0, -1),
      'another version': Buffer.concat([frame.subarray(0, 1), Buffer.from([9]), frame.subarray(2)]),
      'no JSON': withChecksum(
        Buffer.concat([frame.subarray(0, 24), Buffer.alloc(frame.length - 24, '{')]),
      ),
      'one bit that is not as it was': turnBit(frame, 8 * frame.length - 1),
      'the page of another key': forgeFrame(JSON.stringify(head('a')), {
        digest: keyDigest('other'),
      }),
      'random bytes': Buffer.from([1, 2, 3]),
      'CR LF': withHead(head('a\r\nSet-Cookie: a=1')),
      'CR LF in a name': withHead(head('a', 'x-planted\r\nset-cookie')),
      'a character outside latin1': withHead(head('snow ☃')),
      'a length of its own': withHead(head('3', 'content-length')),
      'a framing of its own': withHead(head('chunked', 'transfer-encoding')),
      'a cookie': withHead(head('a=1', 'set-cookie')),
      'a status that is none': withHead({ ...head('a'), s: 99 }),
      'a position that is none': withHead({ ...head('a'), p: '1' }),
      'subjects that are none': withHead({ ...head('a'), t: [1] }),
      'made before all that is known of purges': withHead({ ...head('a'), p: 0 }),
    },
    wellFormed: withHead(head('fine')),
  }
}
