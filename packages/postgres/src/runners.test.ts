import { describe, expect, it } from 'vitest'
import { RunnerLine } from './line.ts'
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

describe('a runner of the app', () => {
  it.each([
    [{ rows: [] }, 'received an object (Object)'],
    [undefined, 'received undefined'],
  ])('fails with an option error if its query returns %j', async (result, received) => {
    const runner = { begin: (run: (tx: object) => unknown) => run({}), query: async () => result }
    const line = await RunnerLine.open(runner as never, undefined as never)
    await expect(line.send(['select 1'])).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: `transaction.runner.query: ${received}; return the rows as an array: result.rows`,
    })
  })
})
