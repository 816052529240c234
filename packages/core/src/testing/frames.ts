// Frames made by hand, with a correct checksum: what a hostile writer could put into Redis, and a broken one could not. Written
// down apart from `entry/frame.ts`, so that a change of the layout is noticed.

import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

export interface Forged {
  /** 1 response, 2 JSON, 3 bytes, 4 note. Default 1. */
  readonly kind?: number
  readonly body?: string
  /** Of the key; see `keyDigest`. Default: of `k`. */
  readonly digest?: Uint8Array
}

export function keyDigest(key: string): Buffer {
  return createHash('sha256').update(key).digest().subarray(0, 8)
}

/** Correct but for its head, which may be anything. */
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

/** A copy whose checksum is right for what is in it. */
export function withChecksum(frame: Buffer): Buffer {
  const copy = Buffer.from(frame)
  if (copy.length > 6) copy.writeUInt32BE(crc32(copy.subarray(6)), 2)
  return copy
}

/** A copy in which one bit is not as it was. */
export function turnBit(frame: Uint8Array, bit: number): Buffer {
  const copy = Buffer.from(frame)
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
  return copy
}
