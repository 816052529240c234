// Compresses the bodies of entries before they are stored (option `compress` of `redisStore`). The
// client of the leader has its response by then, and waiters get the entry after the commit. So a
// commit never waits long for a compression, and is sent without it instead.

import zlib from 'node:zlib'
import type { StampedeStore } from '@stampede/core'
import {
  type Clock,
  type Codec,
  compressibleBody,
  optionError,
  readers,
  readOptions,
  systemClock,
  withCompressedBody,
} from '@stampede/core/store'
import type { Receiver } from '../connection/operation.ts'

type Commit = StampedeStore['commit']
type CommitArguments = Required<Parameters<Commit>>

/** The part of the store that sends a commit. */
interface Committer {
  readonly written: { raw: number }
  readonly commit: Commit
  commitTo(
    ...args: [...CommitArguments, Receiver<Awaited<ReturnType<Commit>>>, agedMs: number]
  ): void
}

/** The form of `RedisStoreOptions.compress` with settings. */
export interface CompressOptions {
  /** Bodies below this number of bytes are stored as they are. Default 2048. */
  minBytes?: number | undefined
  /** Default `br`. `zstd` needs Node 22.15 or newer in all processes. */
  codec?: 'br' | 'gzip' | 'zstd' | undefined
  /**
   * From 1 (fast) to 11 (`br`), 9 (`gzip`) or 19 (`zstd`). Default 1, which takes a third of the
   * CPU time of level 4 of `br`, for a tenth more bytes.
   */
  level?: number | undefined
}

/** Up to this size, the thread pool costs more than the compression, which takes some 0.1 ms. */
const MAX_BYTES_IN_TURN = 16 * 1024
/** The level is 1 above this size, so that the largest body takes less than `MAX_WAIT_MS`. */
const MAX_BYTES_AT_LEVEL = 1024 * 1024
/** Compressions of this process in the thread pool, which DNS and files need, too. */
const MAX_IN_POOL = 4
/** How long a commit waits for the thread pool, which the app may have filled. */
const MAX_WAIT_MS = 50
/** A compressed body that is larger than this part of the body is not worth its decoding. */
const MAX_RATIO = 0.9

type Settings = zlib.ZlibOptions & zlib.BrotliOptions
type Compress = (body: Uint8Array, settings: Settings) => Buffer
type CompressInPool = (
  body: Uint8Array,
  settings: Settings,
  callback: (error: Error | null, packed: Buffer) => void,
) => void

interface Compressor {
  readonly maxLevel: number
  settings(level: number, bytes: number): Settings
  /** Undefined if this version of Node does not have the codec. */
  readonly inTurn: Compress | undefined
  readonly inPool: CompressInPool | undefined
}

const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = zlib.constants
/** `ZSTD_c_compressionLevel`, which the constants of Node 20 lack. */
const ZSTD_LEVEL = 100
const { zstdCompressSync, zstdCompress } = zlib as {
  readonly zstdCompressSync?: Compress
  readonly zstdCompress?: CompressInPool
}

const COMPRESSORS: Readonly<Record<Codec, Compressor>> = {
  br: {
    maxLevel: 11,
    settings: (level, bytes) => ({
      params: { [BROTLI_PARAM_QUALITY]: level, [BROTLI_PARAM_SIZE_HINT]: bytes },
    }),
    inTurn: zlib.brotliCompressSync,
    inPool: zlib.brotliCompress,
  },
  gzip: {
    maxLevel: 9,
    settings: (level) => ({ level }),
    inTurn: zlib.gzipSync,
    inPool: zlib.gzip,
  },
  zstd: {
    maxLevel: 19,
    settings: (level) => ({ params: { [ZSTD_LEVEL]: level } }),
    inTurn: zstdCompressSync,
    inPool: zstdCompress,
  },
}

const OPTIONS = {
  minBytes: readers.number(2048, { min: 0, max: 2 ** 30, unit: 'bytes' }),
  codec: readers.choice('br', 'gzip', 'zstd'),
  level: (_where: string, value: unknown) => value,
} satisfies Record<keyof CompressOptions, unknown>

let inPool = 0

export class Compression {
  readonly #minBytes: number
  readonly #codec: Codec
  readonly #compressor: Compressor
  readonly #level: number

  /** Checks the option. Throws if the codec is unknown to this version of Node. */
  constructor(where: string, option: unknown) {
    const { minBytes, codec, level } = readOptions(where, option, OPTIONS)
    const compressor = COMPRESSORS[codec]
    if (compressor.inPool === undefined) {
      throw optionError(`${where}.codec`, codec, 'it needs Node 22.15 or newer; use br or gzip')
    }
    const rule = { min: 1, max: compressor.maxLevel, unit: 'steps' }
    this.#minBytes = minBytes
    this.#codec = codec
    this.#compressor = compressor
    this.#level = readers.number(1, rule)(`${where}.level`, level)
  }

  /** The commit of `store` with compression. The entry ages meanwhile. */
  commitOf(store: Committer, link: { readonly current: { clock: Clock } | undefined }): Commit {
    const { commit } = store
    return async (grant, frame, lifetimes, awaited = false) => {
      if (frame.byteLength < this.#minBytes) return commit.call(store, grant, frame, lifetimes)
      const clock = link.current?.clock ?? systemClock
      const calledAt = clock.now()
      const stored = await this.compress(frame, awaited, clock)
      store.written.raw += frame.byteLength - stored.byteLength
      return new Promise((resolve, reject) => {
        const agedMs = clock.now() - calledAt
        store.commitTo(grant, stored, lifetimes, awaited, { resolve, reject }, agedMs)
      })
    }
  }

  /** The frame with a compressed body, or the frame itself. `isAwaited`: waiters need it soon. */
  async compress(frame: Uint8Array, isAwaited: boolean, clock: Clock): Promise<Uint8Array> {
    const body = compressibleBody(frame, this.#minBytes)
    if (body === undefined) return frame
    const bytes = body.byteLength
    const level = isAwaited || bytes > MAX_BYTES_AT_LEVEL ? 1 : this.#level
    const settings = this.#compressor.settings(level, bytes)
    const packed =
      bytes > MAX_BYTES_IN_TURN
        ? await this.#inPool(body, settings, clock)
        : await this.#inNextTurn(body, settings)
    if (packed === undefined || packed.byteLength > MAX_RATIO * bytes) return frame
    return withCompressedBody(frame, this.#codec, packed)
  }

  /** Not in this turn, in which the client of the leader gets its response. */
  async #inNextTurn(body: Uint8Array, settings: Settings): Promise<Buffer | undefined> {
    await new Promise((resolve) => setImmediate(resolve))
    return this.#compressor.inTurn?.(body, settings)
  }

  async #inPool(body: Uint8Array, settings: Settings, clock: Clock): Promise<Buffer | undefined> {
    if (inPool === MAX_IN_POOL) return undefined
    inPool += 1
    return new Promise((resolve) => {
      const timer = clock.setTimer(MAX_WAIT_MS, () => resolve(undefined))
      this.#compressor.inPool?.(body, settings, (error, packed) => {
        inPool -= 1
        timer.cancel()
        resolve(error === null ? packed : undefined)
      })
    })
  }
}
