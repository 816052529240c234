import { describe, expect, it } from 'vitest'
import type { Database } from './database.ts'
import { Waits } from './waits.ts'

const PRINTS = { exact: 'e', canonical: 'c' }
const BUSY = { status: 'busy', forMs: 60_000 } as const

/** The waits of a process. Its statements are run by `query`, which gets the waits. */
function waitsWith(query: (waits: Waits) => void): Waits {
  const rows = [true, BUSY].map((reply) => [{ reply: JSON.stringify(reply) }])
  const notices = {
    ready: Promise.resolve(),
    isReceiving: true,
    async query(text: string) {
      if (text.startsWith('watch')) query(waits)
      return rows
    },
  }
  const waits = new Waits({ text: (name: string) => name, notices } as unknown as Database)
  return waits
}

describe('a process that waits for a key', () => {
  it('does not look again before the end of the lease, because a notice will come', async () => {
    const waits = waitsWith(() => {})
    expect(await waits.join('k', PRINTS, BUSY)).toEqual(BUSY)
    expect(waits.restMs('k', PRINTS)).toBeGreaterThan(0)
    expect(waits.wake('k')).toBe(true)
  })

  it('looks again at once if the notice comes before the reply that the key is busy', async () => {
    const waits = waitsWith((own) => void own.wake('k'))
    expect(await waits.join('k', PRINTS, BUSY)).toEqual({ status: 'busy', forMs: 5 })
    expect(waits.restMs('k', PRINTS)).toBeUndefined()
  })
})
