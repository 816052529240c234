// Every name used in Redis, in one place. A change of the layout of records or of channels raises
// LAYOUT, so that two versions of this library side by side do not meet.

import { createHash } from 'node:crypto'
import { groupOf } from '@stampede/core/store'

const LAYOUT = 3
/** Longer keys are hashed; shorter ones stay readable in MONITOR. */
const LONGEST_PLAIN = 200

export interface Names {
  /** One record per key. A key and its variants share a hash tag, and so a slot. */
  record(key: string): string
  /** One channel per process: its process id follows. */
  readonly wakePrefix: string
  /** The same, for locks that are handed over. */
  readonly grantPrefix: string
  /** What an operator settled. */
  readonly settledChannel: string
  /** Its last position and what was forgotten of it, the log, and the newest purge of each subject: one slot. */
  readonly purges: readonly [meta: string, log: string, marks: string]
  readonly logChannel: string
}

export function names(prefix: string): Names {
  const root = `${prefix}:${LAYOUT}`
  return {
    record(key) {
      const group = groupOf(key)
      const tag = `${root}:{${short(group)}}`
      return group === key ? tag : `${tag}:${digest(key)}`
    },
    wakePrefix: `${root}:wake:`,
    grantPrefix: `${root}:grant:`,
    settledChannel: `${root}:settled`,
    purges: [`${root}:{purges}:meta`, `${root}:{purges}:log`, `${root}:{purges}:marks`],
    logChannel: `${root}:log`,
  }
}

function short(text: string): string {
  return Buffer.byteLength(text) <= LONGEST_PLAIN ? `=${text}` : `#${digest(text)}`
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
