// Keys as a report has them: short enough for a report, and hidden on demand.

import { createHash } from 'node:crypto'
import { shownKey } from '@stampede/core/operator'
import { groupOf } from '@stampede/core/store'

const LONGEST_LINK = 400
const LONGEST_SHOWN = 240
/** More than the longest `key` and `id`. */
export const LONGEST_FIELD = 600

/** A key in a report. */
export interface ReportedId {
  /** The key for readers. */
  readonly key: string
  /**
   * Identity of the key in the fleet: the internal key, or `~` and a hash if that is too long or
   * hidden.
   */
  readonly id: string
}

/** An internal key as a report has it. `key`: the key for readers. */
export function reportedKey(
  internalKey: string,
  showKeys: boolean,
  key: string = shownKey(internalKey),
): ReportedId {
  if (!showKeys && internalKey !== '') {
    const kind = internalKey.startsWith('http:') ? 'response' : 'key'
    return { key: `${kind} ${hashOf(internalKey)}`, id: hiddenId(internalKey) }
  }
  return {
    key: key.length <= LONGEST_SHOWN ? key : `${key.slice(0, LONGEST_SHOWN)}…`,
    id: internalKey.length <= LONGEST_LINK ? internalKey : hiddenId(internalKey),
  }
}

/** Returns whether an `id` of a report is that of the key, or of a variant of it. */
export function isReported(internalKey: string): (id: string) => boolean {
  const group = groupOf(internalKey)
  const groups = [group, hashOf(group)]
  return (id) => groups.includes(groupOf(id))
}

/** A variant has the hash of its group, too, so that readers who know the key find it. */
function hiddenId(internalKey: string): string {
  const group = groupOf(internalKey)
  const variant = internalKey.slice(group.length)
  return variant === '' ? hashOf(group) : `${hashOf(group)}\0${hashOf(internalKey)}`
}

function hashOf(text: string): string {
  return `~${createHash('sha256').update(text).digest('base64url').slice(0, 12)}`
}
