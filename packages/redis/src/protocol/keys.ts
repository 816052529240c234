// Names of records and channels in Redis. Keys of the cache begin with `http:` or `d:`, by core.

import { createHash } from 'node:crypto'
import { groupOf } from '@stampede/core/store'

/**
 * Version of the data in Redis. It must rise with each change of the format of records or messages,
 * so that two formats never share data.
 */
const LAYOUT = 4
/** Keep locks and idempotency keys apart from cached entries of the same name. */
export const LOCK_PREFIX = 'l:'
export const IDEMPOTENCY_PREFIX = 'i:'
/** Longer keys are hashed. Shorter keys are stored as they are, and can be read in MONITOR. */
const MAX_PLAIN_BYTES = 200

/** Names of keys and channels in Redis. */
export interface Names {
  /**
   * Name of the record of a key. A key and its variants share a hash tag, and so a Cluster slot.
   */
  record(key: string): string
  /** Prefix of the wake-up channels. The id of the process follows. */
  readonly wakePrefix: string
  /** Prefix of the channels for handed-over locks. The id of the process follows. */
  readonly grantPrefix: string
  /** Channel for keys that an operator settled. */
  readonly settledChannel: string
  /**
   * Keys of the purge log, in one Cluster slot. `meta` has its newest event and its oldest known
   * position, `marks` the newest purge of each subject.
   */
  readonly purges: readonly [meta: string, log: string, marks: string]
  /** Channel for purges. */
  readonly logChannel: string
  /** Reports of processes to operators, in one Cluster slot. */
  readonly reports: readonly [ends: string, texts: string]
  /** Glob that matches the records whose key begins with `begin`, for SCAN. */
  pattern(begin: string): string
  /** The record of a key or of a reference (`ports/store-operator.ts`). */
  recordOf(keyOrReference: string): string
  /** Inverse of `recordOf`. Undefined for a name that is not a record's. */
  keyOf(record: string): string | undefined
}

/**
 * Names of keys and channels in Redis under a prefix. All databases of a server share its channels,
 * so these have the number of the database, unless it is 0.
 */
export function names(prefix: string, database = 0): Names {
  const root = `${prefix}:${LAYOUT}`
  const channels = database === 0 ? root : `${root}:db${database}`
  const record = (key: string): string => {
    const group = key.includes('\0') ? groupOf(key) : key
    const isPlain = Buffer.byteLength(group) <= MAX_PLAIN_BYTES
    const groupRecord = `${root}:{${isPlain ? `=${group}` : `#${digest(group)}`}}`
    return group === key ? groupRecord : `${groupRecord}:${digest(key)}`
  }
  return {
    record,
    wakePrefix: `${channels}:wake:`,
    grantPrefix: `${channels}:grant:`,
    settledChannel: `${channels}:settled`,
    purges: [`${root}:{purges}:meta`, `${root}:{purges}:log`, `${root}:{purges}:marks`],
    logChannel: `${channels}:log`,
    reports: [`${root}:{reports}:ends`, `${root}:{reports}:texts`],
    pattern: (begin) => `${escapeGlob(root)}:{${begin === '' ? '[=#]' : `=${begin}`}*`,
    recordOf(key) {
      const group = groupOf(key)
      const groupRecord = HASH.test(group) ? `${root}:{${group}}` : record(group)
      if (group === key) return groupRecord
      const variant = key.slice(group.length + 1)
      return `${groupRecord}:${HASH.test(variant) ? variant.slice(1) : digest(key)}`
    },
    keyOf(name) {
      if (!name.startsWith(`${root}:`)) return undefined
      const [, kind, text, variant] = RECORD.exec(name.slice(root.length + 1)) ?? []
      if (kind === undefined) return undefined
      const group = kind === '=' ? text : `#${text}`
      return variant === undefined ? group : `${group}\0#${variant}`
    },
  }
}

/** The name of a record after the prefix and the version. A plain key's name ends with `}`. */
const RECORD = /^\{([=#])([\s\S]*)\}(?::([\w-]{43}))?$/
/** The part of a reference whose text is unknown. No key and no variant of core begins with `#`. */
const HASH = /^#[\w-]{43}$/

function escapeGlob(text: string): string {
  return text.replace(/[*?[\]\\^]/g, '\\$&')
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
