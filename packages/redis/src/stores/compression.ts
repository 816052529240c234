// Compresses the bodies of entries before they are stored (option `compress` of `redisStore`). The
// client of the leader has its response by then, and waiters get the entry after the commit. So a
// commit never waits long for a compression, and is sent without it instead.

import { AsyncResource } from 'node:async_hooks'
import zlib from 'node:zlib'
import {
  type Clock,
  compressibleBody,
  optionError,
  readers,
  readOptions,
} from '@stampede/core/store'

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

/**
 * Up to this size at level 1, the thread pool costs more CPU time than the compression, which takes
 * some 0.2 ms.
 */
const MAX_BYTES_IN_TURN = 64 * 1024
/** About so many bytes are compressed in one turn of the event loop, which stops for some 1 ms. */
const MAX_BYTES_OF_TURN = 256 * 1024
/** The level is 1 above this size, so that the largest body takes less than `MAX_WAIT_MS`. */
const MAX_BYTES_AT_LEVEL = 1024 * 1024
/** Compressions of this process in the thread pool, which DNS and files need, too. */
const MAX_IN_POOL = 4
/** How long a commit waits for the thread pool, which the app may have filled. */
const MAX_WAIT_MS = 50
/** A compressed body that is larger than this part of the body is not worth its decoding. */
const MAX_RATIO = 0.9

type Frame = NonNullable<ReturnType<typeof compressibleBody>>
type Codec = Parameters<Frame['frameWith']>[0]
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
  /** Sends the commits that `run` begins in few commands. Set by the store. */
  together: (run: () => void) => void = (run) => run()
  /** The compressions of the next turns. */
  readonly #soon: Array<{ readonly bytes: number; readonly run: () => void }> = []

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

  /**
   * Calls `done` with the frame with a compressed body, or with the frame itself. `isAwaited`:
   * waiters need it soon.
   */
  compress(
    frame: Uint8Array,
    isAwaited: boolean,
    clock: Clock,
    done: (stored: Uint8Array) => void,
  ): void {
    const compressible = compressibleBody(frame, this.#minBytes)
    if (compressible === undefined) return done(frame)
    const { body } = compressible
    const bytes = body.byteLength
    const level = isAwaited || bytes > MAX_BYTES_AT_LEVEL ? 1 : this.#level
    const settings = this.#compressor.settings(level, bytes)
    const end = (packed: Buffer | undefined): void => {
      const isSmaller = packed !== undefined && packed.byteLength <= MAX_RATIO * bytes
      done(isSmaller ? compressible.frameWith(this.#codec, packed) : frame)
    }
    // The time grows faster than the level.
    if (bytes * level ** 2 > MAX_BYTES_IN_TURN) return this.#inPool(body, settings, clock, end)
    this.#inNextTurn(bytes, () => end(this.#inTurn(body, settings)))
  }

  #inTurn(body: Uint8Array, settings: Settings): Buffer | undefined {
    try {
      return this.#compressor.inTurn?.(body, settings)
    } catch {
      // Without memory for it.
      return undefined
    }
  }

  /** Not in this turn, in which the client of the leader gets its response. */
  #inNextTurn(bytes: number, run: () => void): void {
    // The command is sent in the async context of its commit.
    if (this.#soon.push({ bytes, run: AsyncResource.bind(run) }) === 1) setImmediate(this.#runSoon)
  }

  /** The commits of a turn are sent together. */
  readonly #runSoon = (): void => {
    let [count, bytes] = [0, 0]
    while (count < this.#soon.length && bytes < MAX_BYTES_OF_TURN)
      bytes += this.#soon[count++]?.bytes ?? 0
    const now = this.#soon.splice(0, count)
    if (this.#soon.length > 0) setImmediate(this.#runSoon)
    this.together(() => {
      for (const { run } of now) run()
    })
  }

  #inPool(
    body: Uint8Array,
    settings: Settings,
    clock: Clock,
    end: (packed: Buffer | undefined) => void,
  ): void {
    if (inPool === MAX_IN_POOL) return end(undefined)
    inPool += 1
    let isLate = false
    const timer = clock.setTimer(MAX_WAIT_MS, () => {
      isLate = true
      end(undefined)
    })
    this.#compressor.inPool?.(body, settings, (error, packed) => {
      inPool -= 1
      timer.cancel()
      if (!isLate) end(error === null ? packed : undefined)
    })
  }
}
