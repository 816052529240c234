// Frames made by hand, with a correct checksum. A hostile writer could put them into Redis, a
// broken one could not. They are separate from `entry/frame.ts`, so that a change of the layout is
// noticed.

import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

export interface Forged {
  /** 1 response, 2 JSON, 3 bytes. Default 1. */
  readonly kind?: number
  readonly body?: string
  /** Digest of the key, see `keyDigest`. Default: of `k`. */
  readonly digest?: Uint8Array
}

export function keyDigest(key: string): Buffer {
  return createHash('sha256').update(key).digest().subarray(0, 8)
}

/** A frame that is valid except for its head, which may be any text. */
export function forgeFrame(
  head: string,
  { kind = 1, body = 'x', digest = keyDigest('k') }: Forged = {},
): Buffer {
  const [text, rest] = [Buffer.from(head), Buffer.from(body)]
  const sizes = Buffer.alloc(8)
  sizes.writeUInt32BE(text.length, 0)
  sizes.writeUInt32BE(rest.length, 4)
  const start = Buffer.from([0x53, 3, 0, 0, 0, 0, kind, 0])
  return withChecksum(Buffer.concat([start, sizes, digest, text, rest]))
}

/** A copy with the right checksum for its bytes. */
export function withChecksum(frame: Buffer): Buffer {
  const copy = Buffer.from(frame)
  if (copy.length > 6) copy.writeUInt32BE(crc32(copy.subarray(6)), 2)
  return copy
}

/** A copy with one bit turned. */
export function turnBit(frame: Uint8Array, bit: number): Buffer {
  const copy = Buffer.from(frame)
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
  return copy
}
