import { describe, expect, it } from 'vitest'
import { fromDrizzle } from './runners.ts'

describe('fromDrizzle', () => {
  it('throws an option error without the tag sql', () => {
    const db = { transaction: async () => undefined as never }
    expect(() => fromDrizzle(db as never, undefined as never)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining('fromDrizzle(db, sql)'),
      }),
    )
  })
})
