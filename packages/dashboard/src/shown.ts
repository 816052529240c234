// Keys as a report has them: short enough for a report, and hidden on demand.

import { createHash } from 'node:crypto'

const LONGEST_LINK = 400
const LONGEST_SHOWN = 240

export interface ShownKey {
  /** The key for readers. */
  readonly key: string
  /**
   * Identity of the key in the fleet: the internal key, or `~` and a hash if that is too long or
   * hidden.
   */
  readonly id: string
}

/** Returns the function that brings keys of this process into reports. */
export function shower(showKeys: boolean): (key: string, internalKey: string) => ShownKey {
  return (key, internalKey) => {
    if (!showKeys) return hidden(internalKey)
    return {
      key: key.length <= LONGEST_SHOWN ? key : `${key.slice(0, LONGEST_SHOWN)}…`,
      id: internalKey.length <= LONGEST_LINK ? internalKey : hashOf(internalKey),
    }
  }
}

function hidden(internalKey: string): ShownKey {
  if (internalKey === '') return { key: '', id: '' }
  const id = hashOf(internalKey)
  const kind = internalKey.startsWith('http:') ? 'response' : 'key'
  return { key: `${kind} ${id}`, id }
}

function hashOf(internalKey: string): string {
  return `~${createHash('sha256').update(internalKey).digest('base64url').slice(0, 12)}`
}
