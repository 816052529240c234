// Names of records and channels in Redis. The prefixes of keys are elsewhere: `i:` and `l:` in the
// stores of idempotency keys and locks, `http:` and `d:` in core.

import { createHash } from 'node:crypto'
import { groupOf } from '@stampede/core/store'

/**
 * Version of the data in Redis. It must rise with each change of records or messages, so that two
 * layouts never share data.
 */
const LAYOUT = 3
/** Longer keys are hashed. Shorter ones stay readable in MONITOR. */
const MAX_PLAIN_BYTES = 200

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
}

export function names(prefix: string): Names {
  const root = `${prefix}:${LAYOUT}`
  return {
    record(key) {
      const group = groupOf(key)
      const groupRecord = `${root}:{${shortened(group)}}`
      return group === key ? groupRecord : `${groupRecord}:${digest(key)}`
    },
    wakePrefix: `${root}:wake:`,
    grantPrefix: `${root}:grant:`,
    settledChannel: `${root}:settled`,
    purges: [`${root}:{purges}:meta`, `${root}:{purges}:log`, `${root}:{purges}:marks`],
    logChannel: `${root}:log`,
  }
}

function shortened(text: string): string {
  return Buffer.byteLength(text) <= MAX_PLAIN_BYTES ? `=${text}` : `#${digest(text)}`
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
